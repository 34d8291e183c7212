"""The targets that a decision is rendered for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from allocator_service.allocation.decided_parts import (
    Decided,
)
from allocator_service.allocation.models import Run
from allocator_service.core.errors import Conflict, Missing, TooLarge, Unreadable
from allocator_service.core.quantities import Resource
from allocator_service.enforcement.rendering.kubernetes import kubernetes_objects
from allocator_service.enforcement.rendering.kueue import kueue_objects
from allocator_service.enforcement.rendering.limits import (
    EFFECTIVE,
    HARD,
    SOFT,
    DecisionLimits,
    decision_limits,
)
from allocator_service.enforcement.rendering.manifests import yaml_stream
from allocator_service.enforcement.rendering.queues import kai_objects, volcano_objects
from allocator_service.enforcement.rendering.slurm import slurm_objects
from allocator_service.enforcement.rendering.slurm_script import slurm_script
from allocator_service.enforcement.rendering.units import (
    TargetUnit,
    kai_units,
    kubernetes_units,
    slurm_units,
)
from allocator_service.pools.budgets import MonthlyStops

CLASS_LABEL = "partition"
QUOTAS = (HARD, SOFT, EFFECTIVE)
YAML = "application/yaml"
MAX_CELLS = 200_000
NO_STOPS = MonthlyStops()


@dataclass(frozen=True)
class Target:
    """A scheduler for which decisions are rendered.

    `text` writes the objects in its own language, whose media type is `media_type`. `quotas` are the
    kinds of quota that it has: hard ones, ones that others may borrow, ones in a status. `groups_note`
    is for operators of pools with groups, `minutes_note` for those of pools with budgets that it counts.
    With `names_servers` it names the servers of gangs.
    """

    name: str
    units: Callable[[Sequence[Resource]], list[TargetUnit]]
    objects: Callable[[DecisionLimits], list[dict[str, Any]]]
    media_type: str
    text: Callable[..., str]
    quotas: Sequence[str] = (HARD,)
    groups_note: str = ""
    minutes_note: str = ""
    names_servers: bool = False


@dataclass(frozen=True)
class Rendering:
    """A decision rendered for a target.

    `text` is written when it is read.
    """

    target: Target
    run: Run
    limits: DecisionLimits
    objects: Sequence[dict[str, Any]]

    @property
    def text(self) -> str:
        """The objects in the target's own language."""
        return self.target.text(self.objects, notes=self.limits.notes)


TARGETS = {
    target.name: target
    for target in (
        Target(
            *("slurm", slurm_units, slurm_objects, "text/plain", slurm_script),
            groups_note="Groups are parents of their members' accounts: create and move them with"
            " sacctmgr.",
            minutes_note="Slurm counts GrpTRESMins of monthly budgets by itself: set"
            " PriorityDecayHalfLife=0 and PriorityUsageResetPeriod=MONTHLY.",
            names_servers=True,
        ),
        Target("kueue", kubernetes_units, kueue_objects, YAML, yaml_stream, QUOTAS),
        Target(
            *("kubernetes", kubernetes_units, kubernetes_objects, YAML, yaml_stream),
            groups_note="Namespaces have no parents: groups are not rendered, and each namespace has"
            " what the tree gives its member.",
        ),
        Target(
            *("volcano", kubernetes_units, volcano_objects, YAML, yaml_stream, (HARD, SOFT)),
            groups_note="Volcano obeys parents with enableHierarchy of its capacity plugin.",
        ),
        Target("kai", kai_units, kai_objects, YAML, yaml_stream, (HARD, SOFT)),
    )
}


def target_named(name: str) -> Target:
    """Return the target of this name. Raises `Missing`."""
    target = TARGETS.get(name)
    if target is None:
        raise Missing(
            f'There is no rendering for "{name[:40]}"; there are: {", ".join(TARGETS)}.',
            code="rendering.target",
        )
    return target


def limits_for(
    target: Target,
    decided: Decided,
    *,
    label: str,
    members: Sequence[str],
    departed: Sequence[str] = (),
    former_groups: Sequence[str] = (),
    at: datetime,
    quota: str = HARD,
) -> DecisionLimits:
    """Return the limits of a target, per tenant. Raises `TooLarge` for too many tenants × classes."""
    cells = len(decided.tenants) * len(decided.capacity)
    if cells > MAX_CELLS:
        raise TooLarge(
            f"{len(decided.tenants)} tenants on servers with {len(decided.capacity)} values of the"
            f" label {label} are {cells} limits; at most {MAX_CELLS} are rendered. Choose a label with"
            " fewer values.",
            code="rendering.too_large",
        )
    return decision_limits(
        decided,
        label=label,
        units=target.units(decided.resources),
        members=members,
        departed=departed,
        former_groups=former_groups,
        quota=quota,
        at=at,
    )


def decision_render(
    *,
    decided: Decided,
    target: Target,
    label: str,
    members: Sequence[str],
    departed: Sequence[str] = (),
    former_groups: Sequence[str] = (),
    now: datetime,
    quota: str = HARD,
    stops: MonthlyStops = NO_STOPS,
) -> Rendering:
    """Render a decision, whose classes are the values of `label`.

    `stops` are the hours of the month after which budgets stop nodes, for targets that count them.
    Raises `Conflict` where the target cannot express it, and `Unreadable` for a quota that it does not
    have.
    """
    if quota not in target.quotas:
        raise Unreadable(
            f'"quota" of {target.name} is one of: {", ".join(target.quotas)}.',
            code="parameter.value",
            extra={"parameter": "quota"},
        )
    if quota == SOFT and decided.cluster and decided.limits:
        raise Conflict(
            "Limits are of all clusters together: how much of a limit one cluster leaves is not known."
            " Ask for quota=hard.",
            code="rendering.cluster",
        )
    limits = limits_for(
        target,
        decided,
        label=label,
        members=members,
        departed=departed,
        former_groups=former_groups,
        at=now,
        quota=quota,
    )
    if stops.resources:
        notes = [] if decided.cluster else [target.minutes_note]
        limits = replace(limits, stops=stops, notes=[*limits.notes, *notes])
    if limits.groups and target.groups_note:
        limits = replace(limits, notes=[*limits.notes, target.groups_note])
    return Rendering(target, decided.run, limits, target.objects(limits))
