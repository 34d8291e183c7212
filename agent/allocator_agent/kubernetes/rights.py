"""Rights of the agent's service account, with every verb that it uses and no other."""

from __future__ import annotations

from dataclasses import dataclass

READ = ("list", "watch")
# An object is read again right before it is written, at the version that the write names.
_WRITE = ("get", "list", "watch", "create", "update")
_KUEUE = "kueue.x-k8s.io"


@dataclass(frozen=True)
class Right:
    """Verbs on one resource of an API group, in all namespaces."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    part: str = ""  # such as status

    @property
    def name(self) -> str:
        """The resource as roles name it, with its group."""
        part = f"/{self.part}" if self.part else ""
        return f"{self.resource}{part}.{self.group}" if self.group else f"{self.resource}{part}"


def rights_of(
    scheduler: str, *, effective: bool, has_groups: bool, reclaims: bool = False
) -> list[Right]:
    """Return the rights for a kind of scheduler.

    Cohorts are those of the pool's groups. A pool without groups needs no right on them. An agent that
    `reclaims` deactivates workloads.
    """
    rights = [Right("", name, READ) for name in ("nodes", "pods", "namespaces")]
    if scheduler == "kubernetes":
        rights += [Right("batch", "jobs", READ), Right("apps", "replicasets", READ)]
        return [*rights, Right("", "resourcequotas", _WRITE)]
    rights.append(Right(_KUEUE, "workloads", (*READ, "patch") if reclaims else READ))
    kinds = ["clusterqueues", *(["cohorts"] if has_groups else [])]
    if effective:
        for name in kinds:
            rights += [
                Right(_KUEUE, name, ("get", *READ)),
                Right(_KUEUE, name, ("patch",), "status"),
            ]
        return rights
    rights += [Right(_KUEUE, name, _WRITE) for name in ("resourceflavors", "clusterqueues")]
    if has_groups:
        rights.append(Right(_KUEUE, "cohorts", (*_WRITE, "delete")))
    return rights
