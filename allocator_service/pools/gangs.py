"""Checks that a pool can run the tasks of several pieces that it has."""

from datetime import datetime

from django.db.models import Q

from allocator_service.core.errors import Unacceptable
from allocator_service.pools.limits import has_guarantees, has_own_servers
from allocator_service.pools.models import Pool
from policies import Servers, ShareDefinition, choose

# Workloads with tasks of several pieces, or several tasks that start at once.
HAS_GANG = ~Q(pieces=[]) | Q(at_least__gt=1)


def refuse_gangs(
    pool: Pool, *, now: datetime, pointer: str, guaranteed: bool = False
) -> None:
    """Raise `Unacceptable` for a workload whose tasks the pool cannot run.

    It is called in the transaction of a change, after it: what it refuses is undone. `guaranteed` is
    whether the change sets a guarantee or own servers.
    """
    gangs = pool.workloads.exclude(state="withdrawn").filter(HAS_GANG).order_by("pk")
    first = gangs.first()
    if first is None:
        return
    choice = choose(pool.policy_name, pool.policy_mode, pool.policy_options)
    whole = choice.mode == "indivisible" and not choice.policy.time_sharing
    why = None
    if whole and not choice.sees_one_pool and not choice.places_pieces:
        why = "places"
    elif choice.places_pieces and choice.share is ShareDefinition.ALONE:
        why = "with the option `share: alone` places"
    elif choice.places_pieces and (
        guaranteed
        or pool.own_servers
        or has_own_servers(pool)
        or has_guarantees(pool, now=now)
    ):
        why = "beside guarantees and own servers places"
    if why is not None:
        raise Unacceptable(
            f"The policy {pool.policy_name} {why} whole tasks of one piece only, and the workload"
            f' "{first.name}" of {first.tenant.slug} has several.',
            code="workload.pieces",
            pointer=pointer,
        )
    if choice.policy.servers[choice.mode] is Servers.CLASSES:
        two = gangs.filter(pieces__1__isnull=False).first()
        if two is not None:
            raise Unacceptable(
                "Divisible tasks have one kind of pieces, as only their sum counts, and the workload"
                f' "{two.name}" of {two.tenant.slug} has two.',
                code="workload.pieces",
                pointer=pointer,
            )
