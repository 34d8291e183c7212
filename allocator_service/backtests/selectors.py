"""Reads of backtests."""

from typing import NamedTuple
from uuid import UUID

from django.db.models import (
    Avg,
    Case,
    F,
    FloatField,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)

from allocator_service.backtests.errors import absent
from allocator_service.backtests.models import Backtest, BacktestStatus, Cell, CellStatus
from allocator_service.tenants.models import ApiKey


class Holder(NamedTuple):
    """The holder of backtests, which is a key, a person of a tenant, or the users of the admin together.

    A key that took the place of another by rotation has its name, scope and tenant, and so its
    backtests. A person of a tenant, who is the `user`, may see and cancel the backtests of all its keys
    and people. A person may have as many open as a key.
    """

    key_id: UUID | None = None
    tenant_id: int | None = None
    user: str = ""

    def __str__(self) -> str:
        if self.is_admin:
            return "the admin"
        return str(self.key_id or f"{self.user} in {self.tenant_id}")

    @property
    def is_admin(self) -> bool:
        return self.key_id is None and self.tenant_id is None


def with_progress(backtests: QuerySet[Backtest]) -> QuerySet[Backtest]:
    """Return the backtests with `progress`, from 0 to 1 (None without cells), and related objects."""
    part = Case(
        When(status__in=[CellStatus.SUCCEEDED, CellStatus.FAILED], then=Value(1.0)),
        default=F("progress"),
        output_field=FloatField(),
    )
    mean = (
        Cell.objects.filter(backtest=OuterRef("pk"))
        .order_by()
        .values("backtest")
        .annotate(mean=Avg(part))
        .values("mean")
    )
    return backtests.select_related("pool", "plan", "tenant", "key").annotate(
        progress=Subquery(mean, output_field=FloatField())
    )


def asked_by(holder: Holder) -> QuerySet[Backtest]:
    """Return the backtests that the holder has requested."""
    if holder.is_admin:
        return Backtest.objects.filter(key=None, tenant=None)
    if holder.key_id is None:
        return Backtest.objects.filter(key=None, tenant=holder.tenant_id, started_by=holder.user)
    key = ApiKey.objects.filter(pk=holder.key_id).first()
    if key is None:
        return Backtest.objects.none()
    # By name, which rotation keeps. Scope and tenant too: a name can be given to another key later.
    return Backtest.objects.filter(
        key__name=key.name, key__scope=key.scope, key__tenant=key.tenant_id
    )


def backtests_of(holder: Holder) -> QuerySet[Backtest]:
    """Return the backtests that a holder may see.

    A key sees its own, a person those of the tenant, and a user of the admin all of them.
    """
    if holder.is_admin:
        return with_progress(Backtest.objects.all())
    if holder.key_id is None:
        return with_progress(Backtest.objects.filter(tenant=holder.tenant_id))
    return with_progress(asked_by(holder))


def backtest_get(*, backtest_id: UUID | None, holder: Holder) -> Backtest:
    """Return the backtest of this id. Raises `Missing` unless it is the holder's."""
    found = None if backtest_id is None else backtests_of(holder).filter(pk=backtest_id).first()
    if found is None:
        raise absent()
    return found


def percent(backtest: Backtest) -> int:
    """Return the completed part in per cent, rounded down, and 100 only once the results are stored."""
    if backtest.status == BacktestStatus.SUCCEEDED:
        return 100
    part = getattr(backtest, "progress", None) or 0.0
    return min(int(100 * part), 99)
