"""The billing report as a document, as rows and as a picture."""

from collections.abc import Iterator
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.statements.documents import money_text
from allocator_service.billing.tie_out import (
    DEFINITIONS,
    ENTRIES_SHOWN,
    TREE_OF_MONTH,
    Account,
    BillingReport,
    Tie,
    billing_chart,
    billing_report,
    group_billing,
)
from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import decimal_text
from allocator_service.ledger.reporting.periods import report_period
from allocator_service.pools.group_services import MAX_GROUPS
from allocator_service.tenants.selectors import tenants_for
from api.auth import EVERY_SCOPE_AND_GROUP
from api.contract import documents
from api.contract.operations import reports
from api.contract.parameters import Parameters
from api.v1.reports.documents import MAX_TENANTS, Report, ReportDocument
from api.v1.reports.views import ReportView
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


class BillingView(ReportView):
    """A report of money, of which a tenant sees its own even in a transparent pool."""

    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    retired = True
    report = BILLING
    parameters = BillingParameters

    @reports(BillingDocument, "Report what was billed, and that it is what the ledger holds")
    def get(self, request: Request, pool: str) -> Response:
        """Report what each tenant was billed, and reconcile it with the ledger.

        For each month, tenant and resource, `ledger` = `statements` + `not_yet_billed` +
        `not_billable`, to the last digit. The period is widened to whole months of the pool's time
        zone, at most 36 (422 `report.too_long`); open months are computed as of now. `group` reports
        the sum of a group and the tenants below it at the end of each month, to operator and billing
        keys. A tenant key sees itself only, in a transparent pool too. The report stays readable after
        the pool is retired.
        """
        self.refuse_unknown()
        of_period = report_period(
            pool=self.pool,
            start=self.query["from"],
            end=self.query["to"],
            # Statements are of whole months, which cannot be divided.
            step=None,
            now=utc_now(),
        )
        group = self.group_named(of_period)
        if group is not None:
            of_group = group_billing(
                group=group, period=of_period, now=utc_now(), within=self.within
            )
            return self.answer_report(of_group, GROUP_BILLING)
        # Not `limit()`: money is not shown to other tenants in a transparent pool either.
        limit = self.tenant
        if limit is None and self.query["tenant"] is not None:
            limit = tenants_for(None).filter(slug=self.query["tenant"]).first()
        report = billing_report(
            pool=self.pool,
            period=of_period,
            now=utc_now(),
            tenant=limit,
        )
        return self.answer_report(report.under(self.is_asked_for))
