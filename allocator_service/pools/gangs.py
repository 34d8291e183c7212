"""Checks that a pool can run the tasks of several pieces that it has."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from django.db.models import Q

from allocator_service.core.errors import Unacceptable
from allocator_service.pools.limits import has_guarantees, has_own_servers
from allocator_service.pools.models import Pool

# Workloads with tasks of several pieces, or several tasks that start at once.
HAS_GANG = ~Q(pieces=[]) | Q(at_least__gt=1)


class GangRule(Protocol):
    """Rule that states why a policy cannot run gangs."""

    def __call__(
        self,
        name: str,
        mode: str,
        options: Mapping[str, Any],
        *,
        two_kinds: bool,
        guaranteed: bool,
        at_least: bool,
    ) -> str:
        """Return a sentence, an empty text if the policy can run them.

        `two_kinds` is whether a task has pieces of two kinds, `guaranteed` whether the pool has
        guarantees or own servers, `at_least` whether several tasks of a workload start at once.
        """
        ...


_gang_rules: list[GangRule] = []


def register_gang_rule(rule: GangRule) -> None:
    """Add the rule that states why a policy cannot run gangs, an empty text if it can."""
    _gang_rules[:] = [rule]  # replaced, because apps can be set up twice in one process


def refuse_gangs(pool: Pool, *, now: datetime, pointer: str, guaranteed: bool = False) -> None:
    """Raise `Unacceptable` for a workload whose tasks the pool cannot run.

    It is called in the transaction of a change, after it: what it refuses is undone. `guaranteed` is
    whether the change sets a guarantee or own servers.
    """
    gangs = pool.workloads.exclude(state="withdrawn").filter(HAS_GANG).order_by("pk")
    first = gangs.first()
    if first is None:
        return
    of_two_kinds = gangs.filter(pieces__1__isnull=False).first()
    starting_together = gangs.filter(at_least__gt=1).first()
    # Each kind is asked for by its own workload, so that the error names one that is affected.
    for workload, needs in (
        (first, {}),
        (of_two_kinds, {"two_kinds": True}),
        (starting_together, {"at_least": True}),
    ):
        asked = {"two_kinds": False, "at_least": False, "guaranteed": guaranteed, **needs}
        if workload is not None and (why := gang_refusal(pool, now=now, **asked)):
            raise Unacceptable(
                f'{why} See the workload "{workload.name}" of {workload.tenant.slug}.',
                code="workload.pieces",
                pointer=pointer,
            )


def gang_refusal(
    pool: Pool,
    *,
    two_kinds: bool,
    at_least: bool,
    now: datetime,
    guaranteed: bool = False,
) -> str:
    """Return why the pool cannot run tasks of several pieces, an empty text if it can.

    `at_least` is whether several tasks of a workload start at once.
    """
    guaranteed = (
        guaranteed or pool.own_servers or has_own_servers(pool) or has_guarantees(pool, now=now)
    )
    of_pool = (pool.policy_name, pool.policy_mode, pool.policy_options)
    return next(
        (
            why
            for rule in _gang_rules
            if (
                why := rule(*of_pool, two_kinds=two_kinds, guaranteed=guaranteed, at_least=at_least)
            )
        ),
        "",
    )
