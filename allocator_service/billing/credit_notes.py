"""Credit notes, lines that operators add to the statement of the open month with a reason."""

from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import QuerySet

from allocator_service.billing.models import CreditNote, LineKind, Posting
from allocator_service.billing.months import Month
from allocator_service.billing.rating.lines import minor_digits
from allocator_service.billing.statements.drafting import open_month
from allocator_service.core.audit import audit_record
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.core.locks import Lock, lock_in_transaction
from allocator_service.core.outbox import event_record
from allocator_service.pools.models import Pool
from allocator_service.pools.moving import refuse_moved
from allocator_service.tenants.models import Tenant

LARGEST = Decimal(10) ** 12


def credit_notes_for(*, pool: Pool, tenant: Tenant | None) -> QuerySet[CreditNote]:
    """Return the pool's credit notes, or those of one tenant."""
    notes = CreditNote.objects.filter(pool=pool).select_related("pool", "tenant")
    return notes if tenant is None else notes.filter(tenant=tenant)


@transaction.atomic
def credit_note_create(
    *, pool: Pool, tenant: Tenant, amount: Decimal, reason: str, now: datetime
) -> CreditNote:
    """Credit a tenant with an amount of the pool's money.

    Raises `Unacceptable` without a reason or for an amount that is not above 0 in whole minor units, and
    `Conflict` where no price plan is published.
    """
    refuse_moved(pool.pk)
    # The month must not be closed between the check and the line.
    lock_in_transaction(Lock.BILLING, pool.slug)
    month = _open_month(pool)
    digits = minor_digits(pool)
    # Statements have whole minor units, and a note is a line of one.
    if not 0 < amount < LARGEST or amount != round(amount, digits):
        raise Unacceptable(
            f"A credit note's amount is above 0, with at most {digits} digits after the point.",
            code="credit_note.amount",
            pointer="/amount",
        )
    note = CreditNote.objects.create(
        pool=pool,
        tenant=tenant,
        month=month.first,
        amount=amount,
        reason=_reason(reason),
        created_at=now,
    )
    _post(note, month, reverses=None)
    _record(note, "credit_note.create", now)
    return note


@transaction.atomic
def credit_note_reverse(*, note: CreditNote, reason: str, now: datetime) -> CreditNote:
    """Reverse a credit note by one of the opposite amount.

    Raises `Conflict` for one that was reversed, or that reverses one itself.
    """
    refuse_moved(note.pool_id)
    # A month that closes meanwhile would leave the note on a statement that is written.
    lock_in_transaction(Lock.BILLING, note.pool.slug)
    # A chain of reversals would hide what was credited in the end.
    if note.reverses_id is not None:
        raise Conflict(
            "This credit note takes another one back: write a new one.",
            code="credit_note.reversal",
        )
    if CreditNote.objects.filter(reverses=note).exists():
        raise Conflict("The credit note has already been reversed.", code="credit_note.reversed")
    month = _open_month(note.pool)
    opposite = CreditNote.objects.create(
        pool=note.pool,
        tenant=note.tenant,
        month=month.first,
        amount=-note.amount,
        reason=_reason(reason),
        reverses=note,
        created_at=now,
    )
    # On the open month: the statement with the note itself may be closed, and stays as it is.
    _post(opposite, month, reverses=note.postings.get())
    _record(opposite, "credit_note.reverse", now)
    return opposite


def _open_month(pool: Pool) -> Month:
    month = open_month(pool)
    if month is None:
        raise Conflict(
            "No price plan is published: there is no statement for it to be on.",
            code="statement.no_plan",
        )
    return month


def _reason(reason: str) -> str:
    if not reason.strip():
        raise Unacceptable(
            "A credit note needs a reason.", code="credit_note.reason", pointer="/reason"
        )
    return reason.strip()


def _post(note: CreditNote, month: Month, *, reverses: Posting | None) -> None:
    Posting.objects.create(
        pool=note.pool,
        month=month.first,
        service_month=month.first,
        kind=LineKind.CREDIT_NOTE,
        tenant=note.tenant,
        start=month.start,
        end=month.end,
        currency=note.pool.currency,
        tenant_amount=-note.amount,
        pool_amount=note.amount,
        effective=-note.amount,
        credit_note=note,
        reverses=None if reverses is None else reverses.pk,
        note=note.reason,
    )


def _record(note: CreditNote, action: str, now: datetime) -> None:
    audit_record(action=action, instance=note, now=now, pool=note.pool.slug)
    event_record(
        kind="credit_note.created",
        pool=note.pool.slug,
        tenant=note.tenant.slug,
        payload={
            "credit_note": str(note.pk),
            "amount": str(note.amount),
            "currency": note.pool.currency,
        },
        now=now,
    )
