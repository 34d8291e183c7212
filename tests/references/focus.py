"""What FOCUS requires of rows of Cost and Usage, written down column by column from the specification.

Versions 1.2 and 1.4. Conditional columns are required as for a provider with commitments, accounts below
others, unit prices and measured usage, in one currency, without regions, zones and resource ids.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

ALWAYS = [
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ServiceCategory",
    "ServiceName",
]
CONDITIONAL = [
    "BillingAccountType",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "CommitmentDiscountUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedUnitPrice",
    "InvoiceId",
    "ListUnitPrice",
    "PricingCategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "Tags",
]
OF_VERSION = {
    "1.2": ["ProviderName", "PublisherName"],
    "1.4": [
        "AllocatedMethodId",
        "AllocatedResourceId",
        "AllocatedResourceName",
        "AllocatedTags",
        "HostProviderName",
        "InvoiceDetailId",
        "ServiceProviderName",
    ],
}
GONE = {"1.2": OF_VERSION["1.4"], "1.4": OF_VERSION["1.2"]}
NEVER_NULL = {
    *ALWAYS, "BillingAccountType", "InvoiceId", "SubAccountId", "Tags", *OF_VERSION["1.4"],
    *OF_VERSION["1.2"],
} - {"ChargeClass", "PricingQuantity", "PricingUnit"}  # fmt: skip
NUMBERS = [
    "BilledCost",
    "CommitmentDiscountQuantity",
    "ConsumedQuantity",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "ListCost",
    "ListUnitPrice",
    "PricingQuantity",
]
TIMES = ["BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart"]
NUMBER = re.compile(r"-?\d+(\.\d+)?")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
VALUES: dict[str, set[str | None]] = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {None, "Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "CommitmentDiscountCategory": {None, "Usage", "Spend"},
    "CommitmentDiscountStatus": {None, "Used", "Unused"},
    "PricingCategory": {None, "Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {"Compute"},
    "ServiceSubcategory": {"Other (Compute)"},
}
Row = Mapping[str, Any]


def broken(rows: Sequence[Row], version: str) -> list[str]:
    """Return every requirement that some row breaks, with the row's number."""
    found = [
        f"row {number}: {wrong}"
        for number, row in enumerate(rows)
        for wrong in (*_of_columns(row, version), *_of_values(row), *_of_kinds(row))
    ]
    return [*found, *_of_commitments(rows), *_of_lines(rows, version)]


def _of_columns(row: Row, version: str) -> Iterator[str]:
    yield from (f"no {n}" for n in [*ALWAYS, *CONDITIONAL, *OF_VERSION[version]] if n not in row)
    yield from (f"{name} is gone" for name in GONE[version] if name in row)
    names = list(row)
    own = [name for name in names if name.startswith("x_")]
    if names[len(names) - len(own) :] != own:
        yield "own columns come before others"
    yield from (
        f"{name} is no name" for name in names if not re.fullmatch(r"(x_)?[A-Z][A-Za-z]*", name)
    )


def _of_values(row: Row) -> Iterator[str]:
    for name, value in row.items():
        if value is None:
            if name in NEVER_NULL:
                yield f"{name} is null"
            continue
        if value == "":
            yield f"{name} is empty"
        if name in NUMBERS and not NUMBER.fullmatch(value):
            yield f"{name} {value} is no number"
        if name in TIMES and not TIME.fullmatch(value):
            yield f"{name} {value} is no time"
    yield from (f"{name} {row[name]}" for name, known in VALUES.items() if row[name] not in known)
    for name in ("Tags", "AllocatedTags"):
        if row.get(name) is not None:
            tags = json.loads(row[name])
            if any(isinstance(value, dict | list) for value in tags.values()):
                yield f"{name} is nested"
    for kind in ("Billing", "Charge"):
        start, end = (datetime.fromisoformat(row[f"{kind}Period{w}"]) for w in ("Start", "End"))
        if start >= end:
            yield f"{kind}Period is empty"


def _of_kinds(row: Row) -> Iterator[str]:
    category, is_new = row["ChargeCategory"], row["ChargeClass"] is None
    bought = category in ("Usage", "Purchase")
    if bought and is_new:
        for name in (
            "ContractedUnitPrice", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit",
            "SkuId", "SkuPriceId",
        ):  # fmt: skip
            if row[name] is None:
                yield f"{name} of {category} is null"
    for price, cost in (("ListUnitPrice", "ListCost"), ("ContractedUnitPrice", "ContractedCost")):
        if row[price] is not None and Decimal(row[price]) < 0:
            yield f"{price} is negative"
        if row[price] is not None and row["PricingQuantity"] is not None:
            if Decimal(row[price]) * Decimal(row["PricingQuantity"]) != Decimal(row[cost]):
                yield f"{cost} is not quantity × {price}"
        elif Decimal(row[cost]) != Decimal(row["BilledCost"]) and category == "Credit":
            yield f"{cost} without a price is not BilledCost"
    if (row["PricingQuantity"] is None) != (row["PricingUnit"] is None):
        yield "PricingQuantity without PricingUnit or reversed"
    unused = row["CommitmentDiscountStatus"] == "Unused"
    for name in ("ConsumedQuantity", "ConsumedUnit"):
        if category != "Usage" and row[name] is not None:
            yield f"{name} of {category}"
        if category == "Usage" and not is_new and row["PricingQuantity"] is None and row[name]:
            yield f"{name} of a correction without a quantity"
        if category == "Usage" and is_new and unused != (row[name] is None):
            yield f"{name} of {'unused' if unused else 'used'} hours is {row[name]}"
    if row["CommitmentDiscountId"] is None:
        unit = Decimal(1).scaleb(-len(row["BilledCost"].partition(".")[2]))
        if abs(Decimal(row["ListCost"]) - Decimal(row["BilledCost"])) > unit + Decimal("1e-6"):
            yield f"ListCost {row['ListCost']} of what is billed {row['BilledCost']}"
        for name in ("Category", "Name", "Quantity", "Status", "Type", "Unit"):
            if row[f"CommitmentDiscount{name}"] is not None:
                yield f"CommitmentDiscount{name} without a commitment"
        if category != "Credit" and Decimal(row["EffectiveCost"]) != Decimal(row["BilledCost"]):
            yield "EffectiveCost differs without a commitment"
        return
    if row["CommitmentDiscountCategory"] is None or row["CommitmentDiscountType"] is None:
        yield "a commitment without category or type"
    if bought and is_new and None in (
        row["CommitmentDiscountQuantity"], row["CommitmentDiscountUnit"]
    ):  # fmt: skip
        yield "a commitment without quantity or unit"
    if not is_new and row["CommitmentDiscountQuantity"] is not None:
        yield "CommitmentDiscountQuantity of a correction"
    if (row["CommitmentDiscountQuantity"] is None) != (row["CommitmentDiscountUnit"] is None):
        yield "CommitmentDiscountUnit without CommitmentDiscountQuantity or reversed"
    if (category == "Usage") != (row["CommitmentDiscountStatus"] is not None):
        yield f"CommitmentDiscountStatus of {category} is {row['CommitmentDiscountStatus']}"
    if category == "Purchase" and Decimal(row["EffectiveCost"]) != 0:
        yield "EffectiveCost of a purchase that covers use"
    if category == "Purchase" and row["PricingCategory"] == "Committed":
        yield "PricingCategory of a purchase is Committed"
    if category == "Usage" and Decimal(row["BilledCost"]) != 0:
        yield "BilledCost of covered use"


def _of_commitments(rows: Sequence[Row]) -> Iterator[str]:
    """Over their whole terms, commitments cost as much in use as in purchases."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        if row["CommitmentDiscountId"] is not None:
            effective = row["ChargeCategory"] == "Usage"
            cost = Decimal(row["EffectiveCost" if effective else "BilledCost"] or 0)
            sums[row["CommitmentDiscountId"]] += cost if effective else -cost
    yield from (f"{name} costs {sum_} more in use" for name, sum_ in sums.items() if sum_)


def _of_lines(rows: Sequence[Row], version: str) -> Iterator[str]:
    """What a line of an invoice is divided into is all of it."""
    if version == "1.2":
        return
    ratios: dict[tuple[str | None, ...], Decimal] = defaultdict(Decimal)
    for row in rows:
        if row["AllocatedMethodDetails"] is not None:
            details = json.loads(row["AllocatedMethodDetails"], parse_float=Decimal)
            if {name for name in details if not name.startswith("x_")} != {"Elements"}:
                yield f"AllocatedMethodDetails {details}"
            for element in details["Elements"]:
                ratios[row["InvoiceId"], row["InvoiceDetailId"]] += Decimal(
                    element["AllocatedRatio"]
                )
    yield from (f"line {line} is divided into {sum_}" for line, sum_ in ratios.items() if sum_ != 1)
