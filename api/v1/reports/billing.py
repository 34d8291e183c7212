"""The billing report as a document, as rows and as a picture."""

from collections.abc import Iterator
from typing import Any

from allocator_service.billing.statements.documents import money_text
from allocator_service.billing.tie_out import (
    DEFINITIONS,
    ENTRIES_SHOWN,
    TREE_OF_MONTH,
    Account,
    BillingReport,
    Tie,
    billing_chart,
)
from allocator_service.core.quantities import decimal_text
from allocator_service.pools.group_services import MAX_GROUPS
from api.contract import documents
from api.contract.parameters import Parameters
from api.v1.reports.documents import MAX_TENANTS, Report, ReportDocument
from api.v1.statement_documents import MonthField

COLUMNS = (
    "month",
    "tenant",
    "resource",
    "unit",
    "ledger",
    "statements",
    "not_yet_billed",
    "not_billable",
    "difference",
    "reason",
)
STEPS = ("P1M",)


class BillingParameters(Parameters):
    """The period, widened to whole months, and the tenant."""

    from_ = documents.TimestampField(required=False, description="By default 7 days before `to`.")
    to = documents.TimestampField(required=False, description="Now by default, and at most now.")
    tenant = documents.TextField(
        max_length=63,
        required=False,
        description="The tenant with this slug only; 404 `tenant.not_found` if there is none.",
    )
    group = documents.SlugField(
        required=False,
        description="This group only: its sum and the tenants below it. An unknown group is 404"
        " `group.not_found`; together with `tenant` it is 400 `report.one_of`.",
    )
    step = documents.ChoiceField(choices=STEPS, required=False, description="Always months.")


class AccountDocument(documents.Document):
    tenant = documents.SlugField()
    charges = documents.DecimalField()
    credits = documents.DecimalField()
    billed = documents.DecimalField()


class GroupAccountDocument(documents.Document):
    group = documents.SlugField()
    charges = documents.DecimalField()
    credits = documents.DecimalField()
    billed = documents.DecimalField()


class TieDocument(documents.Document):
    month = MonthField()
    tenant = documents.SlugField()
    resource = documents.TextField(max_length=63)
    unit = documents.TextField(max_length=20)
    ledger = documents.DecimalField()
    statements = documents.DecimalField()
    not_yet_billed = documents.DecimalField()
    not_billable = documents.DecimalField()
    difference = documents.DecimalField(description="0.")
    reason = documents.TextField(
        max_length=60, allow_null=True, description="Why it is not billable."
    )
    late_entries = documents.ids_field(
        max_items=ENTRIES_SHOWN, description="Some that came after their month was closed."
    )
    unbillable_entries = documents.ids_field(
        max_items=ENTRIES_SHOWN, description="Some that have no price."
    )


class BillingDocument(ReportDocument):
    currency = documents.CurrencyField()
    group = documents.DocumentField(
        GroupAccountDocument,
        required=False,
        description="With `group` in the query: the sum of the accounts.",
    )
    groups = documents.ListField(
        GroupAccountDocument,
        min_items=0,
        max_items=MAX_GROUPS,
        required=False,
        description="With `group` in the query: the groups directly below it.",
    )
    accounts = documents.ListField(AccountDocument, min_items=0, max_items=MAX_TENANTS)
    ties = documents.ListField(TieDocument, min_items=0, max_items=MAX_TENANTS)


def billing_fields(report: BillingReport) -> dict[str, Any]:
    """Return the fields of the document after the common head."""
    return {
        "currency": report.pool.currency,
        "accounts": [_account(each, report.digits, "tenant") for each in report.accounts],
        "ties": [
            {
                **_tie(tie),
                "late_entries": list(tie.late),
                "unbillable_entries": list(tie.unbillable),
            }
            for tie in report.ties
        ],
    }


def group_billing_fields(report: BillingReport) -> dict[str, Any]:
    """The fields of a group's report, with its sum and the groups directly below it."""
    group, groups = (
        [_account(each, report.digits, "group") for each in accounts]
        for accounts in ([report.group] if report.group else [], report.groups)
    )
    return {**billing_fields(report), "group": group[0], "groups": groups}


def _account(account: Account, digits: int, of: str) -> dict[str, str]:
    return {
        of: account.tenant,
        "charges": money_text(account.charges, digits),
        "credits": money_text(account.credits, digits),
        "billed": money_text(account.billed, digits),
    }


def _tie(tie: Tie) -> dict[str, Any]:
    return {
        "month": str(tie.month),
        "tenant": tie.tenant,
        "resource": tie.resource.name,
        "unit": tie.resource.unit,
        "ledger": decimal_text(tie.ledger),
        "statements": decimal_text(tie.statements),
        "not_yet_billed": decimal_text(tie.not_yet_billed),
        "not_billable": decimal_text(tie.not_billable),
        "difference": decimal_text(tie.difference),
        "reason": " ".join(tie.reasons) or None,
    }


def billing_rows(report: BillingReport) -> Iterator[dict[str, Any]]:
    """A row per month, tenant and resource."""
    return (_tie(tie) for tie in report.ties)


BILLING = Report("billing", DEFINITIONS, COLUMNS, billing_fields, billing_rows, billing_chart)
GROUP_BILLING = Report(
    "billing",
    {**DEFINITIONS, "group": TREE_OF_MONTH},
    COLUMNS,
    group_billing_fields,
    billing_rows,
    billing_chart,
)
