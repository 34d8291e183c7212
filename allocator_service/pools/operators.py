"""The limits of operators to some pools."""

from collections.abc import Collection
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.errors import Conflict
from allocator_service.core.models import PoolLimit
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Person


@transaction.atomic
def pool_limit_set(*, user: User, pools: Collection[Pool], now: datetime) -> PoolLimit:
    """Let a user of the admin see these pools and no other from the next request on.

    Raises `Conflict` for a user who signs in by a provider, whose groups determine the pools.
    """
    if Person.objects.filter(user=user).exists():
        raise Conflict(
            f"{user} signs in by the provider, whose groups determine these pools.",
            code="pool_limit.by_groups",
        )
    # Locked, so that the audit states as `before` what this change replaces.
    present = PoolLimit.objects.select_for_update().filter(user=user).first()
    before = None if present is None else stated_fields(present)
    limit = present or PoolLimit(user=user)
    limit.pools = sorted(pool.slug for pool in pools)
    limit.save()
    audit_record(action="pool_limit.set", instance=limit, before=before, now=now)
    return limit


@transaction.atomic
def pool_limit_lift(*, limit: PoolLimit, now: datetime) -> None:
    """Let the user see every pool again. Raises `Conflict` where the provider's groups decide."""
    if Person.objects.filter(user=limit.user_id).exists():
        raise Conflict("The provider's groups determine these pools.", code="pool_limit.by_groups")
    audit_record(action="pool_limit.lift", instance=limit, before=stated_fields(limit), now=now)
    limit.delete()
