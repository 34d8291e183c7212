"""Reratings, credit notes, budgets and service units as documents."""

from typing import Any

from allocator_service.billing.budgets import HIGHEST_THRESHOLD, MAX_THRESHOLDS
from allocator_service.billing.models import Budget, CreditNote, Rerating
from allocator_service.billing.models.watching import default_thresholds
from allocator_service.billing.rating.lines import minor_digits
from allocator_service.billing.service_units import Bank
from allocator_service.billing.statements.documents import money_text
from allocator_service.core.quantities import decimal_text
from api.contract.fields import IdField, SlugField, TimestampField, VersionField
from api.contract.money import CurrencyField, PriceField, decimal_field
from api.v1.statements.serializers import MonthField
from policies.fields import BooleanField, Document, IntegerField, ListField, TextField

MAX_TENANTS = 10**6
THRESHOLD = IntegerField(minimum=1, maximum=HIGHEST_THRESHOLD)


class ReratingRequest(Document):
    plan = IdField(description="A draft whose time is in closed months.")
    reason = TextField(max_length=2_000)
    dry_run = BooleanField(
        default=False, description="Answer what it would change, and do nothing."
    )


class ChangeDocument(Document):
    tenant = SlugField()
    before = decimal_field(description="Posted for that time before.")
    after = decimal_field()
    difference = decimal_field(description="What it adds to the open statement.")


class ReratingDocument(Document):
    id = IdField(allow_null=True, description="Null for a dry run.")
    pool = SlugField()
    plan = IdField()
    month = MonthField(description="Of the statements that its lines are on.")
    months = ListField(MonthField(), min_items=0, description="The closed months that it changes.")
    reason = TextField(max_length=2_000)
    currency = CurrencyField()
    changes = ListField(ChangeDocument, min_items=0, max_items=MAX_TENANTS)
    created_at = TimestampField()


class CreditNoteRequest(Document):
    tenant = SlugField()
    amount = PriceField(
        what="A credit note's amount", description="What the tenant is credited with, above 0."
    )
    reason = TextField(max_length=2_000)


class ReversalRequest(Document):
    reason = TextField(max_length=2_000)


class CreditNoteDocument(Document):
    id = IdField()
    pool = SlugField()
    tenant = SlugField()
    month = MonthField(description="Of the statement that it is on.")
    amount = decimal_field(description="Below 0 where it takes another one back.")
    currency = CurrencyField()
    reason = TextField(max_length=2_000)
    reverses = IdField(allow_null=True)
    created_at = TimestampField()


class BudgetRequest(Document):
    tenant = SlugField()
    resource = TextField(
        max_length=63, required=False, allow_null=True, description="Hours of it; else money."
    )
    amount = PriceField(what="A budget", description="Per month.")
    thresholds = ListField(
        THRESHOLD,
        max_items=MAX_THRESHOLDS,
        default=default_thresholds,
        description="Per cents, at each of which one event a month is told.",
    )


class BudgetDocument(Document):
    id = IdField()
    pool = SlugField()
    tenant = SlugField()
    resource = TextField(max_length=63, allow_null=True)
    amount = decimal_field()
    currency = CurrencyField(allow_null=True)
    thresholds = ListField(THRESHOLD, max_items=MAX_THRESHOLDS)
    version = VersionField()
    created_at = TimestampField()


class GrantRequest(Document):
    tenant = SlugField()
    units = PriceField(what="A grant", description="Service units, above 0.")
    reason = TextField(max_length=2_000, blank=True, default="")


class BankDocument(Document):
    pool = SlugField()
    tenant = SlugField()
    since = TimestampField(description="Of the first grant.")
    granted = decimal_field()
    used = decimal_field()
    balance = decimal_field()


def rerating_document(rerating: Rerating, *, dry_run: bool = False) -> dict[str, Any]:
    return {
        "id": None if dry_run else rerating.pk,
        "pool": rerating.pool.slug,
        "plan": rerating.plan_id,
        "month": f"{rerating.month:%Y-%m}",
        "months": [f"{month:%Y-%m}" for month in rerating.months],
        "reason": rerating.reason,
        "currency": rerating.pool.currency,
        "changes": rerating.changes,
        "created_at": rerating.created_at,
    }


def credit_note_document(note: CreditNote) -> dict[str, Any]:
    return {
        "id": note.pk,
        "pool": note.pool.slug,
        "tenant": note.tenant.slug,
        "month": f"{note.month:%Y-%m}",
        "amount": money_text(note.amount, minor_digits(note.pool)),
        "currency": note.pool.currency,
        "reason": note.reason,
        "reverses": note.reverses_id,
        "created_at": note.created_at,
    }


def budget_document(budget: Budget) -> dict[str, Any]:
    return {
        "id": budget.pk,
        **budget_fields(budget),
        "pool": budget.pool.slug,
        "currency": None if budget.resource else budget.pool.currency,
        "version": budget.version,
        "created_at": budget.created_at,
    }


def budget_fields(budget: Budget) -> dict[str, Any]:
    """What a merge-patch changes."""
    return {
        "tenant": budget.tenant.slug,
        "resource": budget.resource or None,
        "amount": decimal_text(budget.amount),
        "thresholds": list(budget.thresholds),
    }


def bank_document(bank: Bank, pool: str) -> dict[str, Any]:
    return {
        "pool": pool,
        "tenant": bank.tenant.slug,
        "since": bank.since,
        "granted": decimal_text(bank.granted),
        "used": decimal_text(bank.used),
        "balance": decimal_text(bank.balance),
    }
