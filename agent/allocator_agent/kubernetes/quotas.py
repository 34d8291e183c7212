"""Pure functions on quotas in manifests, which read their numbers and compare them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from allocator_agent.changes import ADD, CHANGE, ObjectChange, Value
from allocator_agent.kubernetes.api import Manifest
from allocator_agent.quantities import Amounts, quantity

_COHORT = "allocator.cohort"  # annotation of a queue: the cohort of its rendering
_FENCE = "allocator.fence"  # annotation that only changes the version of an object
_QUANTITIES = ("nominalQuota", "borrowingLimit", "lendingLimit", "weight", "hard")
_QUOTA_FIELDS = ("resourceGroups", "hard")
Place = tuple[str, ...]  # where in a manifest a number stands, in words that outlast reordering


@dataclass(frozen=True)
class Kind:
    """The address of objects of one kind in the API."""

    api: str
    plural: str
    namespaced: bool

    def path(self, manifest: Manifest | None = None) -> str:
        """Return the path of a manifest's object, or of all objects of the kind."""
        root = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        if manifest is None:
            return f"{root}/{self.plural}"
        return f"{self.collection(manifest)}/{manifest['metadata']['name']}"

    def collection(self, manifest: Manifest) -> str:
        """Return the path to which a new object is posted."""
        root = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        if not self.namespaced:
            return f"{root}/{self.plural}"
        return f"{root}/namespaces/{manifest['metadata']['namespace']}/{self.plural}"


_PLURALS = {
    "ResourceQuota": ("resourcequotas", True),
    "ClusterQueue": ("clusterqueues", False),
    "LocalQueue": ("localqueues", True),
    "ResourceFlavor": ("resourceflavors", False),
    "Cohort": ("cohorts", False),
}


COHORTS = Kind("kueue.x-k8s.io/v1beta2", *_PLURALS["Cohort"])
QUEUES = Kind("kueue.x-k8s.io/v1beta2", *_PLURALS["ClusterQueue"])


def kind_of(manifest: Manifest) -> Kind | None:
    """Return the kind of a manifest, None for one that the agent does not write."""
    plural = _PLURALS.get(manifest["kind"])
    return None if plural is None else Kind(manifest["apiVersion"], *plural)


@dataclass(frozen=True)
class Change:
    """An object that is absent or differs.

    `before` is None for one that must be created.
    """

    kind: Kind
    after: Manifest
    before: Manifest | None

    @property
    def lowers(self) -> bool:
        before = limits_of(self.before or {})
        return any(amount < before[place] for place, amount in self.lowered().items())

    @property
    def raises(self) -> bool:
        before = limits_of(self.before or {})
        return any(amount > before.get(place, 0) for place, amount in limits_of(self.after).items())

    def lowered(self) -> dict[Place, Fraction]:
        """Return intermediate numbers, at most the present and at most the new ones.

        A flavor that goes is lowered to nothing. Values that others wrote into a quota stay.
        """
        after, before = limits_of(self.after), limits_of(self.before or {})
        return {
            place: min(amount, after.get(place, Fraction(0)))
            for place, amount in before.items()
            if place in after or len(place) > 1
        }

    def shown(self) -> ObjectChange:
        """Return the change as a plan shows it."""
        metadata = self.after["metadata"]
        namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        name = f"{self.after['kind']} {namespace}{metadata['name']}"
        if self.before is None:
            values = [Value(" ".join(at), "", text) for at, text in texts_of(self.after).items()]
            return ObjectChange(ADD, name, (*values, *_other_values({}, self.after)))
        whole = merged(self.before, self.after)
        before, after = texts_of(self.before), texts_of(whole)
        values = [
            Value(" ".join(place), before.get(place, "none"), after.get(place, "none"))
            for place in {**before, **after}
            if before.get(place) != after.get(place)
        ]
        return ObjectChange(CHANGE, name, (*values, *_other_values(self.before, whole)))


def _other_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Value]:
    """Yield the fields of a spec that differ, without quotas."""
    former, present = before.get("spec") or {}, after.get("spec") or {}
    for name in {**former, **present}:
        if name not in _QUOTA_FIELDS and former.get(name) != present.get(name):
            yield Value(name, *(_text_of(each.get(name), before) for each in (former, present)))


def _text_of(value: Any, before: Mapping[str, Any]) -> str:
    """Return a field of a spec as a text, empty where a new object has none before."""
    if value is None:
        return "none" if before else ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def limits_of(manifest: Mapping[str, Any]) -> dict[Place, Fraction]:
    """Return the numbers that a manifest limits."""
    return {place: quantity(text) for place, text in texts_of(manifest).items()}


def texts_of(manifest: Mapping[str, Any]) -> dict[Place, str]:
    """Return the numbers that a manifest limits, as they are written."""
    return {place: str(holder[key]) for place, holder, key in _numbers(manifest)}


def with_limits(manifest: Manifest, limits: Mapping[Place, Fraction]) -> Manifest:
    """Return a copy with the numbers of `limits` in place of its own."""
    changed = copy.deepcopy(manifest)
    for place, holder, key in list(_numbers(changed)):
        if place in limits and quantity(str(holder[key])) != limits[place]:
            holder[key] = written(limits[place])
    return changed


def without_quota(manifest: Manifest) -> Manifest:
    """Return a copy that limits every row to nothing."""
    return with_limits(manifest, dict.fromkeys(limits_of(manifest), Fraction(0)))


def grown(before: Manifest, now: Manifest) -> list[str]:
    """Return the rows that limit more now than before, as texts."""
    former, present, texts = limits_of(before), limits_of(now), texts_of(now)
    return [
        f"{' '.join(place)} {texts[place]}"
        for place, amount in present.items()
        if amount > former.get(place, 0)
    ]


def fenced(present: Manifest) -> Manifest:
    """Return an object for a PUT that changes its version and none of its quotas."""
    result = copy.deepcopy(present)
    annotations = result["metadata"].get("annotations") or {}
    former = annotations.get(_FENCE, "0")
    number = str(int(former) + 1) if former.isdecimal() else "1"
    result["metadata"]["annotations"] = {**annotations, _FENCE: number}
    return result


def differs(present: Manifest, required: Manifest) -> bool:
    """Return whether an object differs from the required spec. Additions by the server do not count."""
    if _leaves_cohort(present, required):
        return True
    return not _within(required.get("spec") or {}, present.get("spec") or {})


def same_quotas(one: Manifest, other: Manifest) -> bool:
    """Return whether two manifests limit the same, by the same rows in the same order."""
    groups = [(item.get("spec") or {}).get("resourceGroups") or [] for item in (one, other)]
    return _within(groups[0], groups[1]) and _within(groups[1], groups[0])


def _leaves_cohort(present: Manifest, rendered: Manifest) -> bool:
    """Return whether a queue is in the cohort of an earlier rendering that the new one does not name.

    Without limits on borrowing, which flat renderings do not need, it would borrow there.
    """
    leaves = "cohortName" not in (rendered.get("spec") or {})
    return cohort_of_rendering(present) is not None and leaves


def cohort_of_rendering(queue: Manifest) -> str | None:
    """Return the cohort that a rendering put a queue into, None where others did or it has none."""
    cohort: str | None = (queue.get("spec") or {}).get("cohortName")
    ours = (queue["metadata"].get("annotations") or {}).get(_COHORT)
    return cohort if cohort and cohort == ours else None


def merged(present: Manifest, required: Manifest) -> Manifest:
    """Return an object with the required spec, labels and annotations, for a PUT at its version."""
    result = copy.deepcopy(present)
    spec = result.setdefault("spec", {})
    if _leaves_cohort(present, required):
        del spec["cohortName"], result["metadata"]["annotations"][_COHORT]
    for name, value in copy.deepcopy(required.get("spec") or {}).items():
        both = isinstance(value, dict) and isinstance(spec.get(name), dict)
        spec[name] = {**spec[name], **value} if both else value
    for field in ("labels", "annotations"):
        entries = required["metadata"].get(field) or {}
        if entries:
            result["metadata"][field] = {**(present["metadata"].get(field) or {}), **entries}
    return result


def amounts_of(manifest: Mapping[str, Any]) -> Amounts:
    """Return the amounts that a manifest limits, by the names of a pool's resources."""
    amounts: Amounts = {}
    for place, amount in limits_of(manifest).items():
        name = place[-1].rpartition("/")[2].removeprefix("requests.")
        amounts[name] = amounts.get(name, Fraction(0)) + amount
    return amounts


def amounts_by_flavor(manifest: Mapping[str, Any]) -> dict[tuple[str, str], Fraction]:
    """Return the quota of a queue by flavor and resource of the pool."""
    amounts: dict[tuple[str, str], Fraction] = {}
    for (flavor, name), amount in limits_of(manifest).items():
        place = flavor, name.rpartition("/")[2]
        amounts[place] = amounts.get(place, Fraction(0)) + amount
    return amounts


def written(amount: Fraction) -> str:
    """Return a quantity as Kubernetes writes it, whole or in thousandths."""
    if amount.denominator == 1:
        return str(amount.numerator)
    return f"{amount * 1000 // 1}m"


def _numbers(manifest: Mapping[str, Any]) -> Iterator[tuple[Place, dict[str, Any], str]]:
    spec = manifest.get("spec") or {}
    hard = spec.get("hard") or {}
    for name in hard:
        yield (name,), hard, name
    for group in spec.get("resourceGroups") or []:
        for flavor in group.get("flavors") or []:
            for resource in flavor.get("resources") or []:
                if "nominalQuota" in resource:
                    yield (flavor["name"], resource["name"]), resource, "nominalQuota"


def _within(required: Any, present: Any, name: str = "") -> bool:
    if isinstance(required, dict) and isinstance(present, dict):
        # Every value below `hard` is a quantity, whatever its resource is called.
        return all(
            key in present and _within(value, present[key], name if name == "hard" else key)
            for key, value in required.items()
        )
    if isinstance(required, list) and isinstance(present, list):
        return len(required) == len(present) and all(map(_within, required, present))
    if required == present:
        return True
    if name not in _QUANTITIES:
        return False  # names such as 1e3 and 1000 are two
    try:
        return quantity(str(required)) == quantity(str(present))
    except ValueError:
        return False
