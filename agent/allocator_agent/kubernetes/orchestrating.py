"""Kueue with decisions as effective quotas, which are written without any change of a spec."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from allocator_agent.configuration import Configuration
from allocator_agent.errors import AgentError
from allocator_agent.kubernetes import effective
from allocator_agent.kubernetes.api import Api, ApiRefused, Conflict, Manifest
from allocator_agent.kubernetes.objects import NotKept, version_of
from allocator_agent.kubernetes.quotas import (
    COHORTS,
    QUEUES,
    Change,
    amounts_of,
    grown,
    limits_of,
    same_quotas,
    with_limits,
)
from allocator_agent.kubernetes.scheduler import Kubernetes, KubernetesPlan
from allocator_agent.model import Observation, Rendering
from allocator_agent.quantities import Amounts

# Kueue writes the status of a busy queue many times a second, and each write is a conflict.
_ATTEMPTS = 12
_LONGEST_PAUSE_SECONDS = 0.5
_QUEUE, _COHORT = "ClusterQueue", "Cohort"
_KINDS = {_COHORT: COHORTS, _QUEUE: QUEUES}
_DROPPED = (
    "the API server drops status.effectiveQuotas, so its Kueue lacks the field: upgrade Kueue and"
    " enable its feature gate DynamicQuotaOrchestration, or set [kubernetes] quotas = spec"
)


class FieldDropped(AgentError):
    """The API server stores objects without their effective quotas."""


class EffectiveKueue(Kubernetes):
    """One cluster whose queues and cohorts are written by others, such as a GitOps tool."""

    def __init__(self, configuration: Configuration, api: Api) -> None:
        super().__init__(configuration, api)
        self._reference = effective.orchestrator(configuration.pool)

    def apply(self, plan: KubernetesPlan) -> list[str]:
        """Lower what falls, read it back, then write the rest.

        If anything has more than it should once all is lowered, nothing is raised. Returns problems.
        """
        known = {_label(each): each for each in plan.known.values()}
        try:
            problems: list[str] = []
            for change in plan.changes:
                if change.lowers and change.before is not None:
                    known[_label(change.after)] = with_limits(change.before, change.lowered())
                    problems += self._tried_to(change, None)
            problems = problems or self._fence(plan) or self._not_kept(plan, known)
            if problems:
                return problems + self._requeued(plan, ends=False)
            for change in plan.changes:
                problems += self._tried_to(change, known[_label(change.after)])
                known[_label(change.after)] = change.after
            problems = problems or self._not_kept(plan, known, written=True)
            return problems + self._requeued(plan, ends=not problems)
        except FieldDropped as error:
            return [str(error), *self._requeued(plan, ends=False)]

    def applied(self, observed: Observation, *, fresh: bool) -> dict[str, Amounts]:
        """Return the quotas that Kueue obeys, by queue."""
        queues = (self.listed if fresh else self._objects)(QUEUES.path())
        return {
            item["metadata"]["name"]: amounts_of(effective.in_force(item, _QUEUE))
            for item in queues
            if item["metadata"]["name"] in observed.accounts
        }

    def _planned(
        self,
        rendering: Rendering,
        observed: Observation,  # noqa: ARG002 - the names of queues are in the rendering
        read: Callable[[str], Iterable[Manifest]],
    ) -> KubernetesPlan:
        queues = [item for item in rendering.objects if item["kind"] in (_COHORT, _QUEUE)]
        if any(effective.FIELD not in (item.get("status") or {}) for item in queues):
            raise AgentError(
                f"the service renders no status.{effective.FIELD}: upgrade the service"
            )
        plan, resources = KubernetesPlan(), effective.resources_of(queues)
        for name, kind in _KINDS.items():
            rendered = {item["metadata"]["name"]: item for item in queues if item["kind"] == name}
            if name == _COHORT and not rendered:
                continue  # the agent of a flat pool may lack the permission to list cohorts
            for item in read(kind.path()):
                of_item = rendered.pop(item["metadata"]["name"], None)
                self._compare(plan, name, item, of_item, resources)
            for item in rendered.values():
                # A cohort that does not exist has no quota of its own to override.
                if any(limits_of({"spec": item["status"][effective.FIELD]}).values()):
                    text = f"there is no {_label(item)}: create it, as the agent writes no spec"
                    _add_problem(plan, item, text)
        return plan

    def _compare(
        self,
        plan: KubernetesPlan,
        kind: str,
        item: Manifest,
        rendered: Manifest | None,
        resources: frozenset[str],
    ) -> None:
        """Add an object to the plan if it is the pool's, and its change if it has one."""
        owner = effective.orchestrator_of(item)
        if rendered is None and owner != self._reference:
            return
        if owner not in (None, self._reference):
            _add_problem(plan, rendered, f"{_foreign(kind, item)}: it is left as it is")
            return
        before = effective.in_force(item, kind)
        after = effective.decided(item, kind, rendered, resources)
        plan.known[_KINDS[kind].path(item)] = before
        missing = effective.unplaced(item, rendered) if rendered else []
        if missing:
            _add_problem(
                plan,
                rendered,
                f"the spec of {_label(after)} lacks flavors for {', '.join(missing)}",
            )
        if owner is None or not same_quotas(before, after):
            plan.changes.append(Change(_KINDS[kind], after, before))

    def _bump_version(self, path: str, version: str) -> Manifest | None:
        """Return an object with its quotas in force, at a later version than `version`.

        Raises `FieldDropped` if the API server drops effective quotas.
        """
        kind = _COHORT if path.startswith(COHORTS.path()) else _QUEUE
        present = self._read(path)
        if present is not None and version in ("", version_of(present)):
            before = effective.in_force(present, kind)
            body = effective.fence(present, kind, self._reference)
            if body is None or effective.orchestrator_of(present) not in (None, self._reference):
                return before
            version = version_of(present)
            try:
                present = self._send("PATCH", f"{path}/status", body, before)
            except Conflict:
                present = self._read(path)
            if present is not None and effective.orchestrator_of(present) is None:
                raise FieldDropped(_DROPPED)
            if present is not None and version_of(present) == version:
                raise NotKept("the API server answered with other quotas than were written")
        return None if present is None else effective.in_force(present, kind)

    def _tried_to(self, change: Change, expected: Manifest | None) -> list[str]:
        try:
            self._store(change, expected)
        except (ApiRefused, NotKept) as error:
            return [f"{_label(change.after)}: {error}"]
        return []

    def _store(self, change: Change, expected: Manifest | None) -> None:
        """Write the status of a change.

        Without `expected` only what falls is written, else all, if no more than expected is in force.
        Raises `NotKept` if others write it too, or if the API server answers with something else.
        """
        kind, path, pause = change.after["kind"], change.kind.path(change.after), 0.01
        for _ in range(_ATTEMPTS):
            present = self._read(path)
            if present is None:
                raise NotKept("it is gone")
            if effective.orchestrator_of(present) not in (None, self._reference):
                raise NotKept(_foreign(kind, present))
            before, target = effective.in_force(present, kind), change.after
            if expected is None:
                target = with_limits(before, Change(change.kind, target, before).lowered())
            elif grown(expected, before):
                more = ", ".join(grown(expected, before))
                raise NotKept(f"others write it too, it has {more}")
            owned = effective.orchestrator_of(present) is not None
            if owned and same_quotas(before, target):
                return
            body = effective.patch(present, target, self._reference)
            try:
                stored = self._send("PATCH", f"{path}/status", body, before)
            except Conflict:
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
                continue
            if effective.orchestrator_of(stored) is None:
                raise FieldDropped(_DROPPED)
            if not same_quotas(effective.in_force(stored, kind), _written(body, kind)):
                raise NotKept("the API server answered with other quotas than were written")
            return
        raise NotKept(f"it was changed by others {_ATTEMPTS} times in a row")

    def _not_kept(
        self, plan: KubernetesPlan, known: dict[str, Manifest], *, written: bool = False
    ) -> list[str]:
        """Read back and return the objects that have more than is known, or not what was written."""
        problems = []
        changed = {_label(change.after) for change in plan.changes}
        for name, kind in _KINDS.items():
            if not any(each["kind"] == name for each in known.values()):
                continue
            for item in self.listed(kind.path()):
                now = effective.in_force(item, name)
                label = _label(now)
                if label not in known:
                    continue
                more = grown(known[label], now)
                if more:
                    problems.append(
                        f"{label}: read back, it has {', '.join(more)}, which is too much"
                    )
                elif written and label in changed and not same_quotas(now, known[label]):
                    problems.append(f"{label}: read back, it has other quotas than were written")
        return problems


def _label(item: Manifest) -> str:
    return f"{item['kind']} {item['metadata']['name']}"


def _written(body: Manifest, kind: str) -> Manifest:
    """Return the quotas of a patch in the form in which they are compared."""
    return effective.in_force({"metadata": {}, "status": body["status"]}, kind)


def _foreign(kind: str, item: Manifest) -> str:
    """Return what manages an object in the place of the pool, as a sentence."""
    owner = effective.orchestrator_of(item) or {}
    return (
        f"the effective quotas of {kind} {item['metadata']['name']} are managed by"
        f" {owner.get('kind', '')} {owner.get('apiGroup', '')}/{owner.get('name', '')}"
    )


def _add_problem(plan: KubernetesPlan, rendered: Manifest | None, text: str) -> None:
    labels = (rendered or {"metadata": {}})["metadata"].get("labels") or {}
    plan.problems.setdefault(labels.get("allocator.tenant", ""), []).append(text)
