"""The targets that a decision is rendered for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allocator_service.allocation.decided import decided_by_class
from allocator_service.allocation.models import Run
from allocator_service.core.errors import Missing, TooLarge
from allocator_service.core.quantities import Resource
from allocator_service.enforcement.rendering.limits import DecisionLimits, decision_limits
from allocator_service.enforcement.rendering.slurm import slurm_objects
from allocator_service.enforcement.rendering.slurm_script import slurm_script
from allocator_service.enforcement.rendering.units import TargetUnit, slurm_units

CLASS_LABEL = "partition"
MAX_CELLS = 200_000


@dataclass(frozen=True)
class Target:
    """How a decision becomes the objects of a scheduler.

    `text` writes them in its own language, whose media type is `media_type`.
    """

    name: str
    units: Callable[[Sequence[Resource]], list[TargetUnit]]
    objects: Callable[..., list[dict[str, Any]]]
    media_type: str
    text: Callable[..., str]


@dataclass(frozen=True)
class Rendering:
    """A decision rendered for a target; `text` is made when it is asked for."""

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
    for target in (Target("slurm", slurm_units, slurm_objects, "text/plain", slurm_script),)
}


def target_named(name: str) -> Target:
    """The target of this name. Raises `Missing`."""
    target = TARGETS.get(name)
    if target is None:
        raise Missing(
            f'There is no rendering for "{name[:40]}"; there are: {", ".join(TARGETS)}.',
            code="rendering.target",
        )
    return target


def limits_for(
    target: Target, run: Run, *, label: str, members: Sequence[str] = ()
) -> DecisionLimits:
    """What the target is told, per tenant. Raises `TooLarge` for too many tenants × classes."""
    decided = decided_by_class(run, label=label)
    cells = len(decided.tenants) * len(decided.capacity)
    if cells > MAX_CELLS:
        raise TooLarge(
            f"{len(decided.tenants)} tenants on servers with {len(decided.capacity)} values of the"
            f" label {label} are {cells} limits; at most {MAX_CELLS} are rendered. Choose a label with"
            " fewer values.",
            code="rendering.too_large",
        )
    return decision_limits(
        decided, label=label, units=target.units(decided.resources), members=members
    )


def decision_render(
    *, run: Run, target: Target, label: str, members: Sequence[str], now: datetime
) -> Rendering:
    """Render a decision. Raises `Conflict` where the target cannot express it."""
    limits = limits_for(target, run, label=label, members=members)
    objects = target.objects(limits, pool=run.pool.slug, now=now)
    return Rendering(target, run, limits, objects)
