"""FOCUS 1.3 (FinOps Open Cost and Usage Specification): a row per line of a closed month's statements.

Every value follows from the statement's own document, so that whoever has the documents makes the same
rows. docs/billing.md has the mapping.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from allocator_service.billing.models import DIFFERENCES, Closing, LineKind, Statement
from allocator_service.billing.statements.documents import CREDIT
from allocator_service.tenants.models import Tenant

DECIMALS = (
    "BilledCost",
    "ConsumedQuantity",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "ListCost",
    "ListUnitPrice",
    "PricingQuantity",
)
INSTANTS = ("BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart")
COLUMNS = (
    "AllocatedMethodDetails", "AllocatedMethodId", "AllocatedResourceId", "AllocatedResourceName",
    "AllocatedTags", "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType",
    "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass",
    "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountStatus",
    "CommitmentDiscountType", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "HostProviderName", "InvoiceId", "InvoiceIssuerName",
    "ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit",
    "ServiceCategory", "ServiceName", "ServiceProviderName", "ServiceSubcategory", "SkuId",
    "SkuPriceId", "SubAccountId", "SubAccountName", "SubAccountType", "Tags", "x_Adjusts",
    "x_EntryId", "x_LineKind", "x_LineNumber", "x_PricePlan", "x_ServerOwner", "x_User",
)  # fmt: skip
_COMMITTED = (LineKind.COMMITMENT, LineKind.UNUSED, LineKind.UPFRONT)


def focus_statements(closing: Closing, tenant: Tenant | None) -> Iterator[dict[str, Any]]:
    """The documents of a closed month's statements that a caller may see, one at a time, by tenant."""
    statements = Statement.objects.filter(closing=closing).order_by("tenant__slug")
    if tenant is not None:
        statements = statements.filter(tenant=tenant)
    for statement in statements.iterator(chunk_size=20):
        yield orjson.loads(bytes(statement.document))


def focus_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a statement's document, with the columns of `COLUMNS`; decimals are texts."""
    return (_row(document, line) for line in document["lines"])


def _row(document: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    pool, tenant = document["pool"], document["tenant"]
    credited = line["role"] == CREDIT
    category, frequency = _category(line)
    by_usage = category == "Usage" and line["hours"] is not None
    unit = f"{line['unit'] or 'Unit'}-Hours" if by_usage else None
    cost = line["billed"] if credited else line["charge"]
    kind = _rated_kind(line)
    committed = kind in _COMMITTED
    values = {
        "AllocatedMethodDetails": _json(document["method"]),
        "AllocatedMethodId": document["method"]["policy"],
        "AllocatedResourceId": f"{pool}/{tenant}",
        "AllocatedResourceName": tenant,
        "AllocatedTags": _json({"tenant": tenant, "pool": pool}),
        "BilledCost": line["billed"],
        "BillingAccountId": pool,
        "BillingAccountName": pool,
        "BillingAccountType": "Pool",
        "BillingCurrency": document["currency"],
        "BillingPeriodEnd": document["to"],
        "BillingPeriodStart": document["from"],
        "ChargeCategory": category,
        "ChargeClass": "Correction" if line["kind"] in DIFFERENCES else None,
        "ChargeDescription": _description(line),
        "ChargeFrequency": frequency,
        "ChargePeriodEnd": line["to"],
        "ChargePeriodStart": line["from"],
        "CommitmentDiscountCategory": "Usage" if committed else None,
        "CommitmentDiscountId": _commitment(line) if committed else None,
        "CommitmentDiscountStatus": _status(line),
        "CommitmentDiscountType": "Committed quantity" if committed else None,
        "ConsumedQuantity": line["hours"] if by_usage and kind != LineKind.UNUSED else None,
        "ConsumedUnit": unit if kind != LineKind.UNUSED else None,
        "ContractedCost": cost,
        "ContractedUnitPrice": line["price"] if by_usage else None,
        "EffectiveCost": line["effective"],
        "HostProviderName": line["server_owner"] or pool,
        "InvoiceId": f"{pool}/{document['month']}/{tenant}",
        "InvoiceIssuerName": pool,
        "ListCost": cost,
        "ListUnitPrice": line["price"] if by_usage else None,
        "PricingCategory": _pricing(line) if by_usage else None,
        "PricingQuantity": line["hours"] if by_usage else None,
        "PricingUnit": unit,
        "ServiceCategory": "Compute",
        "ServiceName": f"Pool {pool}",
        "ServiceProviderName": pool,
        "ServiceSubcategory": "Other (Compute)",
        "SkuId": line["resource"],
        "SkuPriceId": f"{line['plan']}/{line['resource']}" if by_usage and line["plan"] else None,
        "SubAccountId": tenant,
        "SubAccountName": tenant,
        "SubAccountType": "Tenant",
        "Tags": _json({}),
        "x_Adjusts": line["adjusts"],
        "x_EntryId": line["entry"],
        "x_LineKind": line["kind"],
        "x_LineNumber": str(line["number"]),
        "x_PricePlan": line["plan"],
        "x_ServerOwner": line["server_owner"],
        "x_User": line["user"],
    }
    return {name: values[name] for name in COLUMNS}


def _category(line: Mapping[str, Any]) -> tuple[str, str]:
    """Charge category and frequency."""
    if line["role"] == CREDIT or line["kind"] == LineKind.CREDIT_NOTE:
        return "Credit", "One-Time" if line["kind"] == LineKind.CREDIT_NOTE else "Usage-Based"
    if line["kind"] == LineKind.UPFRONT:
        return "Purchase", "One-Time"
    if line["kind"] == LineKind.FIXED:
        return "Purchase", "Recurring"
    return "Usage", "Usage-Based"


def _rated_kind(line: Mapping[str, Any]) -> str:
    """The kind of line that a difference changes, and any other line's own.

    Statements of earlier releases do not name it: their differences are of usage.
    """
    return str(line.get("adjusted_kind") or line["kind"])


def _commitment(line: Mapping[str, Any]) -> str | None:
    """The commitment's name; statements of earlier releases have it as the note only."""
    number = line.get("commitment")
    note: str | None = line["note"]
    return note if number is None else f"commitment {number}"


def _status(line: Mapping[str, Any]) -> str | None:
    if _rated_kind(line) == LineKind.COMMITMENT:
        return "Used"
    return "Unused" if _rated_kind(line) == LineKind.UNUSED else None


def _pricing(line: Mapping[str, Any]) -> str:
    if _rated_kind(line) in _COMMITTED:
        return "Committed"
    return "Dynamic" if line["price"] is None else "Standard"


def _description(line: Mapping[str, Any]) -> str:
    parts = [line["kind"].replace("_", " "), line["resource"], line["note"]]
    return ", ".join(part for part in parts if part)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True)
