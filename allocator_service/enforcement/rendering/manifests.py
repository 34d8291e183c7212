"""The common parts of Kubernetes manifests, such as metadata, quantities and the stream."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from allocator_service.core.errors import Conflict
from allocator_service.enforcement.rendering.limits import DecisionLimits, Limits

# Larger quantities are cut to this one (k8s.io/apimachinery, resource.Quantity).
LARGEST_QUANTITY = 2**63 - 1
_THOUSANDTHS = "cpu"


class _Dumper(yaml.CSafeDumper):
    """A dumper that quotes texts that kubectl would read as numbers or truth values.

    PyYAML quotes by YAML 1.1 alone: it writes a queue named `1e3`, `08` or `n` without quotes.
    """


_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]\Z"), list("yYnN"))
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:0[oOxXbB][0-9a-fA-F_]+|[0-9._]+(?:[eE][-+]?[0-9_]+)?)\Z"),
    list("-+.0123456789"),
)


def metadata(
    name: str, limits: DecisionLimits, *, tenant: str = "", namespace: str = "", group: str = ""
) -> dict[str, Any]:
    """Return an object's name, with the pool, run and generation that it is from."""
    run = limits.decided.run
    labels = {"allocator.pool": run.pool.slug} | ({"allocator.tenant": tenant} if tenant else {})
    labels |= {"allocator.group": group} if group else {}
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": labels,
        "annotations": {
            "allocator.run": str(run.pk),
            "allocator.generation": str(run.generation),
        },
    }


def quantity(name: str, limit: int) -> str:
    """Return a limit as a Kubernetes quantity. Raises `Conflict` for one that Kubernetes would cut."""
    if limit > LARGEST_QUANTITY:
        raise Conflict(
            f"{limit} of {name} is more than Kubernetes counts, {LARGEST_QUANTITY}.",
            code="rendering.quantity",
        )
    if name != _THOUSANDTHS:
        return str(limit)
    whole, thousandths = divmod(limit, 1000)
    return f"{limit}m" if thousandths else str(whole)


def quantities(limits: DecisionLimits, of: Limits) -> dict[str, str]:
    """Return limits as quantities, by Kubernetes' names of the resources."""
    return {name: quantity(name, limit) for name, limit in limits.named(of).items()}


def refuse_slots(limits: DecisionLimits, target: str) -> None:
    """Raise `Conflict` for a decision that divides time, since only Slurm has reservations."""
    if limits.decided.period_seconds:
        raise Conflict(
            f"The pool's policy divides time, which {target} cannot express: render for slurm, or"
            " choose a policy that does not divide time.",
            code="rendering.unsupported",
        )


def refuse_nothing(limits: DecisionLimits, target: str) -> None:
    """Raise `Conflict` where the target knows none of the pool's resources."""
    if all(unit.name is None for unit in limits.units):
        raise Conflict(
            f"{target} knows none of the pool's resources: name one cpu, memory or gpu.",
            code="rendering.unsupported",
        )


def yaml_stream(objects: Iterable[Mapping[str, Any]], *, notes: Iterable[str]) -> str:
    """Return the manifests as a stream of YAML documents, with notes as comments at its head."""
    comments = "".join(f"# {note}\n" for note in notes)
    documents = yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=200
    )
    return comments + documents
