"""What schedulers make of decisions, on the pools' pages; agents and their reports, to be looked at."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.contrib import admin

from allocator_service.allocation.admin.pages import PoolAdmin
from allocator_service.core.admin import ReadOnlyAdmin
from allocator_service.core.quantities import decimal_text
from allocator_service.enforcement.models import Agent, Drift, Report
from allocator_service.enforcement.selectors import (
    EnforcementState,
    TenantEnforcement,
    enforcement_state,
)
from allocator_service.pools.models import Pool

TENANTS_SHOWN = 50
_SHOWN_DIGITS = Decimal("0.001")


@dataclass(frozen=True)
class Row:
    """A tenant's line: decided, enforced and used per resource, as texts."""

    tenant: str
    numbers: Sequence[tuple[str, str, str]]
    tasks: str
    wrong: str


@dataclass(frozen=True)
class Table:
    """The tenants that drift first, then those that use most."""

    state: EnforcementState
    rows: Sequence[Row]
    tenants: int
    drifting: int


def enforcement_table(pool: Pool, *, now: datetime) -> Table:
    """The three numbers of a pool's tenants, as its page shows them."""
    state = enforcement_state(pool=pool, now=now)
    order = sorted(
        state.tenants, key=lambda row: (not row.drifts, -max(row.used or [Decimal(0)]), row.tenant)
    )
    return Table(
        state,
        [_row(row, state) for row in order[:TENANTS_SHOWN]],
        len(order),
        sum(row.drifts for row in order),
    )


def _row(row: TenantEnforcement, state: EnforcementState) -> Row:
    unknown = [None] * len(state.resources)
    numbers = [
        (_shown(decided), _shown(enforced), _shown(used))
        for decided, enforced, used in zip(
            row.decided, row.enforced or unknown, row.used or unknown, strict=True
        )
    ]
    tasks = [
        "not known" if count is None else str(count)
        for count in (row.running_tasks, row.pending_tasks)
    ]
    wrong = list(row.problems)
    if row.enforced is None:
        wrong.append("No agent reported it.")
    wrong += [
        f"{resource.name}: {_shown(abs(amount))} {'more' if amount > 0 else 'less'} than it was told."
        for resource, amount in zip(state.resources, row.drift or [], strict=False)
        if amount
    ]
    if row.over:
        wrong.append("More runs than was decided.")
    return Row(row.tenant, numbers, ", ".join(tasks), " ".join(wrong))


def _shown(amount: Decimal | None) -> str:
    return "not known" if amount is None else decimal_text(amount.quantize(_SHOWN_DIGITS))


@admin.register(Pool)
class EnforcedPoolAdmin(PoolAdmin):
    """Pools, whose page says what schedulers make of their decisions."""

    overview_template = "admin/enforcement/overview.html"

    def overview_context(self, pool: Pool, *, now: datetime) -> dict[str, Any]:
        """What is decided, and what is enforced and used of it."""
        context = super().overview_context(pool, now=now)
        return {**context, "enforcement": enforcement_table(pool, now=now)}


@admin.register(Agent)
class AgentAdmin(ReadOnlyAdmin):
    list_display = [
        "name", "pool", "target", "generation", "interval_seconds", "reported_at", "received_at",
    ]  # fmt: skip
    list_filter = ["pool", "target"]
    list_select_related = ["pool"]


@admin.register(Report)
class ReportAdmin(ReadOnlyAdmin):
    list_display = ["agent", "run", "reported_at", "repeated_at"]
    list_select_related = ["agent", "run__pool"]
    exclude = ["content"]
    readonly_fields = ["document"]


@admin.register(Drift)
class DriftAdmin(ReadOnlyAdmin):
    list_display = ["tenant", "pool", "since", "told_at"]
    list_select_related = ["tenant", "pool"]
    list_filter = ["pool"]
