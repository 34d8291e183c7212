"""Effective quotas of Kueue, in force and as decided. Pure.

Source: KEP-12382 and pull requests 14389, 15040 and 15107 of Kueue. `status.effectiveQuotas` of a
ClusterQueue or Cohort is a complete list of resource groups that Kueue obeys instead of the spec's.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from allocator_agent.kubernetes.api import Manifest
from allocator_agent.kubernetes.quotas import texts_of, written
from allocator_agent.quantities import quantity

FIELD = "effectiveQuotas"


def orchestrator(pool: str) -> dict[str, str]:
    """Return the reference of a pool's effective quotas to what manages them."""
    return {"apiGroup": "allocator", "kind": "Pool", "name": pool}


def orchestrator_of(item: Mapping[str, Any]) -> dict[str, str] | None:
    """Return what manages an object's effective quotas, None for an object without them."""
    effective = (item.get("status") or {}).get(FIELD)
    return None if effective is None else dict(effective.get("orchestratorRef") or {})


def in_force(item: Manifest, kind: str) -> Manifest:
    """Return an object with the quotas that Kueue obeys in the place of its spec's."""
    effective = (item.get("status") or {}).get(FIELD)
    groups = (item.get("spec") if effective is None else effective) or {}
    return _with_groups(item, kind, copy.deepcopy(groups.get("resourceGroups") or []))


def decided(
    item: Manifest, kind: str, rendered: Manifest | None, resources: Collection[str]
) -> Manifest:
    """Return an object with what is decided for the rows of its spec, in the place of its quotas.

    Of the pool's `resources`, a flavor has what the rendering gives the object, else nothing; other
    resources stay as in the spec. An object that the pool no longer has (None) has nothing at all.
    """
    spec = item.get("spec") or {}
    in_cohort = bool(spec.get("cohortName") or spec.get("parentName"))
    rows = {} if rendered is None else dict(_rows(rendered["status"][FIELD]))
    after = _with_groups(item, kind, copy.deepcopy(spec.get("resourceGroups") or []))
    for place, row in _rows(after["spec"]):
        if rendered is None or place[1] in resources:
            ours = rows.get(place, {})
            row["nominalQuota"] = ours.get("nominalQuota", "0")
            for limit in ("borrowingLimit", "lendingLimit"):
                if in_cohort and limit in ours:
                    row[limit] = ours[limit]
    return _capped(after)


def unplaced(item: Manifest, rendered: Manifest) -> list[str]:
    """Return what is decided for an object on flavors that its spec does not have, as texts."""
    have = texts_of(item)
    return [
        f"{row['nominalQuota']} {place[1]} of {place[0]}"
        for place, row in _rows(rendered["status"][FIELD])
        if place not in have and quantity(str(row["nominalQuota"]))
    ]


def resources_of(rendered: Collection[Manifest]) -> frozenset[str]:
    """Return the resources that a rendering decides on, by Kubernetes' names."""
    return frozenset(place[1] for item in rendered for place, _ in _rows(item["status"][FIELD]))


def patch(present: Manifest, target: Manifest, reference: Mapping[str, str]) -> Manifest:
    """Return the merge patch of a status with other quotas, at the version that was read."""
    groups = _capped(target)["spec"]["resourceGroups"]
    return {
        "metadata": {"resourceVersion": present["metadata"]["resourceVersion"]},
        "status": {FIELD: {"orchestratorRef": dict(reference), "resourceGroups": groups}},
    }


def fence(present: Manifest, kind: str, reference: Mapping[str, str]) -> Manifest | None:
    """Return the merge patch that changes the version of a status and none of its amounts.

    An API server keeps the version of an object that is written as it was, and annotations are not
    part of a status, so one amount is written in another notation. None for a status without rows.
    """
    target = in_force(present, kind)
    for _, row in _rows(target["spec"]):
        text = str(row["nominalQuota"])
        amount = quantity(text)
        if (amount * 1000).denominator == 1:
            row["nominalQuota"] = written(amount) if text.endswith("m") else f"{amount * 1000}m"
            break
    else:
        return None
    return patch(present, target, reference)


def _capped(item: Manifest) -> Manifest:
    """Return an object that lends no more than it has, as Kueue's own orchestrator writes it."""
    capped = copy.deepcopy(item)
    for _, row in _rows(capped["spec"]):
        lent, nominal = row.get("lendingLimit"), row["nominalQuota"]
        if lent is not None and quantity(str(lent)) > quantity(str(nominal)):
            row["lendingLimit"] = nominal
    return capped


def _with_groups(item: Manifest, kind: str, groups: list[Any]) -> Manifest:
    return {"kind": kind, "metadata": item["metadata"], "spec": {"resourceGroups": groups}}


def _rows(holder: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for group in holder.get("resourceGroups") or []:
        for flavor in group.get("flavors") or []:
            for row in flavor.get("resources") or []:
                yield (flavor["name"], row["name"]), row
