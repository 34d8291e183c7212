"""The closing of a month, with one sequence for all of the pool's statements."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import Max

from allocator_service.allocation.models import Run, RunStatus
from allocator_service.billing.auditing.digests import closing_digests_record
from allocator_service.billing.models import Closing, Posting, Statement
from allocator_service.billing.months import Month
from allocator_service.billing.rating.late import late_entries_begin
from allocator_service.billing.rating.lines import in_order, minor_digits
from allocator_service.billing.rating.savings import savings
from allocator_service.billing.statements.clusters import ClusterHours, month_clusters
from allocator_service.billing.statements.documents import (
    canonical,
    month_document,
    statement_document,
)
from allocator_service.billing.statements.drafting import (
    Draft,
    first_month,
    month_draft,
    open_month,
)
from allocator_service.core.audit import audit_record
from allocator_service.core.copying import copy_rows
from allocator_service.core.display import instant_text, month_text
from allocator_service.core.errors import Conflict, FieldError
from allocator_service.core.locks import Lock, lock_for_block, lock_in_transaction
from allocator_service.core.outbox import events_record
from allocator_service.core.planning import without_time_limit
from allocator_service.ledger.lookups import entry_lookup
from allocator_service.ledger.models import Meter, Seal
from allocator_service.pools.models import Pool
from allocator_service.pools.moving import refuse_moved
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Tenant

_PENDING = """
SELECT (SELECT count(*) FROM ledger_pending p
        CROSS JOIN {entry} AS e
        WHERE e.pool_id = %(pool)s AND e.start < %(end)s)
     + (SELECT COALESCE(sum(cardinality(quantities)), 0) FROM ledger_open_use
        WHERE pool_id = %(pool)s AND start < %(end)s AND %(is_over)s)
""".replace("{entry}", entry_lookup("p.entry_id", "p.start"))


def closing_of(pool: Pool, month: Month) -> Closing | None:
    """Return the closing of a month, if it is closed."""
    return Closing.objects.filter(pool=pool, month=month.first).first()


def closing_missing(*, pool: Pool, month: Month, now: datetime) -> list[FieldError]:
    """Return the reasons why an open month cannot be closed yet, empty if it can be."""
    first = first_month(pool)
    if first is None or month < first:
        return [_error("statement.no_plan", "No published price plan holds in the month.")]
    missing = []
    earliest = open_month(pool)
    # A later month has the adjustments of earlier ones, which must be closed by then.
    if earliest is not None and earliest < month:
        missing.append(
            _error("statement.earlier_open", f"Close {month_text(str(earliest))} first.")
        )
    if now < month.end:
        missing.append(
            _error(
                "statement.month_not_over",
                f"The month ends on {instant_text(month.end, pool.timezone)}.",
            )
        )
    behind = _metering_behind(pool, month)
    if behind is not None:
        missing.append(_error("statement.metering_behind", behind))
    # While the month runs, or is not metered to its end, uses that are open are no delay of their own.
    is_over = now >= month.end and behind is None
    with connection.cursor() as cursor:
        cursor.execute(_PENDING, {"pool": pool.pk, "end": month.end, "is_over": is_over})
        count = int(cursor.fetchall()[0][0])
    if count:
        detail = f"{count} entries of the month wait for their number: seconds, while a relay runs."
        missing.append(_error("statement.entries_pending", detail))
    return missing


def _error(code: str, detail: str) -> FieldError:
    return FieldError("", code, detail)


def _metering_behind(pool: Pool, month: Month) -> str | None:
    """Return the reason if the month is not metered to its end."""
    decided = Run.objects.filter(
        pool=pool, status=RunStatus.SUCCEEDED, effective_from__lt=month.end
    )
    if not decided.exists():
        return None
    meter = Meter.objects.filter(pool=pool).first()
    if meter is not None and meter.metered_until >= month.end:
        return None
    metered = "not been metered yet"
    if meter is not None:
        until = instant_text(meter.metered_until, pool.timezone, "second")
        metered = f"been metered until {until} only"
    return f"The pool's decisions have {metered}. A worker catches up by itself."


@transaction.atomic
def month_close(*, pool: Pool, month: Month, now: datetime) -> Closing:
    """Close a month of a pool for all its tenants. A closed month stays as it is.

    Of concurrent callers that close a month, one gets a closing that `is_new`. Raises `Conflict` for all
    missing conditions at once. Usage can be posted meanwhile without waiting: entries that are numbered
    later are adjusted for in the month that is open then.
    """
    refuse_moved(pool.pk)
    # Before the closing is looked for: a second caller waits, and then finds that of the first.
    lock_in_transaction(Lock.BILLING, pool.slug)
    closed = closing_of(pool, month)
    if closed is not None:
        return closed
    missing = closing_missing(pool=pool, month=month, now=now)
    if missing:
        raise Conflict(
            " ".join(error.detail for error in missing), code=missing[0].code, errors=missing
        )
    without_time_limit()  # a month is read once, however many entries it has
    previous = (
        Closing.objects.filter(pool=pool).aggregate(sequence=Max("sequence"))["sequence"] or 0
    )
    with lock_for_block(Lock.LEDGER_SEAL, "ledger"):  # nothing is numbered while it is read
        last = Seal.objects.filter(pool=pool).aggregate(sequence=Max("sequence"))["sequence"]
        # Never below the last closing's: entries up to it are billed, and would be billed again.
        sequence = max(previous, last or 0)
        draft = month_draft(pool=pool, month=month)
    # It reads every entry of the month. No entry of it can become numbered at or below `sequence` now.
    clusters = month_clusters(pool, month, through=sequence)
    _post(draft.rated.lines)
    tenants = tenants_of(pool, month, draft.lines)
    lines = in_order(draft.lines, tenants, [each.name for each in resources_of(pool)])
    document = month_document(
        pool=pool,
        month=month,
        lines=lines,
        slugs=tenants,
        tenants=list(tenants),
        missing=[],
        closed_at=now,
        sequence=sequence,
        previous_sequence=previous,
    )
    closing = Closing.objects.create(
        pool=pool,
        month=month.first,
        start=month.start,
        end=month.end,
        sequence=sequence,
        closed_at=now,
        document=canonical(document),
    )
    # Not stored: it distinguishes the caller that closed the month.
    closing.is_new = True
    late_entries_begin(pool=pool, through=sequence)
    statements = _statements(closing, draft, lines, tenants, clusters)
    audit_record(
        action="month.close", instance=closing, now=now, pool=pool.slug, extra={"lines": len(lines)}
    )
    # In this transaction: the chain has the digest of every closing, and no other.
    closing_digests_record(closing)
    events_record(
        kind="statement.closed",
        pool=pool.slug,
        payloads={
            slug: {
                "month": str(month),
                "billed": statement["totals"]["billed"],
                "currency": pool.currency,
            }
            for slug, statement in statements.items()
        },
        now=now,
    )
    return closing


def tenants_of(pool: Pool, month: Month, lines: Sequence[Posting]) -> dict[int, str]:
    """Return the slugs of a month's members and of the tenants of its lines, by key.

    Members are those admitted by the end of the month.
    """
    members = pool.memberships.filter(admitted_at__lt=month.end).values_list("tenant", flat=True)
    keys = {*members, *(line.tenant_id for line in lines), *(line.owner_id for line in lines)}
    found = Tenant.objects.filter(pk__in=[key for key in keys if key is not None])
    return dict(found.order_by("slug").values_list("pk", "slug"))


def _post(lines: Sequence[Posting]) -> None:
    # By COPY, since a month of a large pool has 10⁵ lines.
    columns = [field.attname for field in Posting._meta.concrete_fields]
    copy_rows(Posting, columns, ([getattr(line, name) for name in columns] for line in lines))


def _statements(
    closing: Closing,
    draft: Draft,
    lines: Sequence[Posting],
    tenants: dict[int, str],
    clusters: Mapping[int, ClusterHours] | None,
) -> dict[str, Any]:
    """Store each tenant's statement and return the documents by slug."""
    by_tenant: dict[int, list[Posting]] = {key: [] for key in tenants}
    for line in lines:
        # A set, because a tenant may be the owner of the servers that it used.
        for key in {line.tenant_id, line.owner_id or line.tenant_id}:
            by_tenant[key].append(line)
    uses: dict[int, list[Any]] = {}
    for use in draft.uses:
        uses.setdefault(use.tenant, []).append(use)
    documents: dict[str, Any] = {}
    rows = []
    for key, slug in tenants.items():
        saved = savings(
            tenant=key,
            uses=uses.get(key, ()),
            prices=draft.prices,
            lines=by_tenant[key],
            digits=minor_digits(closing.pool),
        )
        documents[slug] = statement_document(
            pool=closing.pool,
            month=draft.month,
            tenant=(key, slug),
            lines=by_tenant[key],
            slugs=tenants,
            saved=saved,
            clusters=None if clusters is None else clusters.get(key, {}),
            closed_at=closing.closed_at,
            sequence=closing.sequence,
        )
        rows.append(
            Statement(
                closing=closing,
                tenant_id=key,
                billed=documents[slug]["totals"]["billed"],
                document=canonical(documents[slug]),
            )
        )
    Statement.objects.bulk_create(rows)
    return documents
