"""Rows of FOCUS (FinOps Open Cost and Usage Specification) of a closed month's statements.

Every value follows from the statement's own document, so that a reader of the documents can compute the
same rows. docs/billing.md has the mapping.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from allocator_service.billing.exports.parquet import WIDE_PRECISION
from allocator_service.billing.models import DIFFERENCES, Closing, LineKind, Statement
from allocator_service.billing.statements.documents import CHARGE, CREDIT
from allocator_service.core.money import divided, exactly
from allocator_service.core.quantities import decimal_text
from allocator_service.tenants.models import Tenant

LATEST = "1.4"
GENERATOR = "Allocation service"
# A cost is a quantity times a price, of 12 digits each.
SCALE = 24
DECIMALS = (
    "BilledCost",
    "CommitmentDiscountQuantity",
    "ConsumedQuantity",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "ListCost",
    "ListUnitPrice",
    "PricingQuantity",
)
INSTANTS = ("BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart")
OBJECTS = ("AllocatedMethodDetails", "AllocatedTags", "SkuPriceDetails", "Tags")
_OF_EVERY_VERSION = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType",
    "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass",
    "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountQuantity", "CommitmentDiscountStatus", "CommitmentDiscountType",
    "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost",
    "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit", "ServiceCategory",
    "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId",
    "SubAccountId", "SubAccountName", "SubAccountType", "Tags",
)  # fmt: skip
_OF_VERSION = {
    "1.2": ("ProviderName", "PublisherName"),
    "1.4": (
        "AllocatedMethodDetails", "AllocatedMethodId", "AllocatedResourceId",
        "AllocatedResourceName", "AllocatedTags", "HostProviderName", "InvoiceDetailId",
        "ServiceProviderName",
    ),
}  # fmt: skip
_OWN_COLUMNS = (
    "x_Adjusts", "x_EntryId", "x_LineKind", "x_LineNumber", "x_PricePlan", "x_ServerOwner", "x_User",
)  # fmt: skip
COLUMNS = {
    version: (*sorted((*_OF_EVERY_VERSION, *names)), *_OWN_COLUMNS)
    for version, names in _OF_VERSION.items()
}
_COMMITTED = (LineKind.COMMITMENT, LineKind.UNUSED, LineKind.UPFRONT)
_STATUS = {LineKind.COMMITMENT: "Used", LineKind.UNUSED: "Unused"}
# How the purchase of committed hours differs from their usage.
_PURCHASED = {
    "AllocatedMethodDetails": None,
    "ChargeCategory": "Purchase",
    "ChargeFrequency": "Recurring",
    "ConsumedQuantity": None,
    "ConsumedUnit": None,
    "EffectiveCost": "0",
}
_PAID_UPFRONT = {(kind, CHARGE) for kind in _STATUS}
# Hours in documents have 12 digits.
_ROUNDED_HOURS = Fraction(1, 10**6)
_NOTHING = Decimal(0)


# By the ids of schemas.
CREATED = {
    "89a79f90-a4d6-56fc-a969-9c9641129666": "2026-11-27T00:00:00Z",
    "03b689cb-ddad-5dd6-a8c4-b8cbec0289cd": "2026-11-27T00:00:00Z",
}


def focus_schema(version: str) -> dict[str, Any]:
    """Return the metadata of exports of a version, as FOCUS defines them.

    The id is derived from the columns and changes with them.
    """
    columns = [_column(name) for name in COLUMNS[version]]
    schema_id = str(uuid5(NAMESPACE_URL, json.dumps([version, columns])))
    return {
        "DataGenerator": {"DataGenerator": GENERATOR},
        "Schema": {
            "SchemaId": schema_id,
            "FocusVersion": version,
            "CreationDate": CREATED[schema_id],
            "ColumnDefinition": columns,
        },
    }


def _column(name: str) -> dict[str, Any]:
    if name in DECIMALS:
        return {
            "ColumnName": name,
            "DataType": "DECIMAL",
            "NumericPrecision": WIDE_PRECISION,
            "NumberScale": SCALE,
        }
    if name in INSTANTS:
        return {"ColumnName": name, "DataType": "DATETIME"}
    kind = "JSON" if name in OBJECTS else "STRING"
    return {"ColumnName": name, "DataType": kind, "StringEncoding": "UTF-8"}


def focus_documents(closing: Closing, tenant: Tenant | None) -> Iterator[bytes]:
    """Yield the documents of a closed month's statements that a caller may see, by tenant."""
    statements = Statement.objects.filter(closing=closing).order_by("tenant__slug")
    if tenant is not None:
        statements = statements.filter(tenant=tenant)
    # Documents can be megabytes each, and an export of many tenants must not hold them all in memory.
    for statement in statements.iterator(chunk_size=20):
        yield bytes(statement.document)


def focus_rows(document: Mapping[str, Any], version: str = LATEST) -> Iterator[dict[str, Any]]:
    """Yield the rows of a statement's document, with the columns of a version.

    Decimals are texts. A line at several prices has a row for each. A line of a commitment has a row of
    the purchase, which is billed, and one of what it covers, whose cost is effective only.
    """
    upfront = _spread_upfront(document["lines"])
    columns = COLUMNS[version]
    for line in document["lines"]:
        for values in _rows_of(document, line, upfront):
            yield {name: values[name] for name in columns}


class _Part(NamedTuple):
    """Hours of a line at one price, with their share of its usage and costs."""

    hours: Decimal
    price: Decimal | None
    used: Decimal
    billed: Decimal
    effective: Decimal
    ratio: Decimal


@exactly
def _rows_of(
    document: Mapping[str, Any], line: Mapping[str, Any], upfront: Mapping[int, Decimal]
) -> list[dict[str, Any]]:
    values = _common(document, line)
    kind = _rated_kind(line)
    billed, effective = Decimal(line["billed"]), Decimal(line["effective"])
    if line["role"] == CREDIT or line["kind"] == LineKind.CREDIT_NOTE:
        category = {"ChargeCategory": "Credit"}
        if line["kind"] == LineKind.CREDIT_NOTE:
            category["ChargeFrequency"] = "One-Time"
        return [{**values, **category, **_costs(billed, effective)}]
    if kind == LineKind.FIXED:
        # Usage, as the effective cost of purchases that cover later usage must be 0.
        used = {"ChargeCategory": "Usage", "ChargeFrequency": "Recurring"}
        fixed = _flat_price_columns(line, billed, effective, "Shares")
        used |= {"ConsumedQuantity": fixed["PricingQuantity"], "ConsumedUnit": fixed["PricingUnit"]}
        return [{**values, **fixed, **used}]
    if kind == LineKind.UPFRONT:
        # Amortized on the commitment's lines of the month, or here if it has none.
        left = _NOTHING if line["number"] in upfront else effective
        bought = {
            **_flat_price_columns(line, billed, left, "Commitments"),
            "ChargeCategory": "Purchase",
            "ChargeFrequency": "One-Time",
            "CommitmentDiscountQuantity": line.get("committed_hours"),
            "CommitmentDiscountUnit": _hours_of(line) if line.get("committed_hours") else None,
        }
        # After the first month nothing is billed, and other lines have the effective cost.
        return [{**values, **bought}] if billed or left else []
    rows = []
    for part in _parts(line, billed, effective + upfront.get(line["number"], _NOTHING)):
        priced = {**values, **_price_columns(line, part)}
        if kind in _COMMITTED:
            stated = None if line["kind"] in DIFFERENCES else decimal_text(part.used)
            quantity = {
                "CommitmentDiscountQuantity": stated,
                "CommitmentDiscountUnit": stated and priced["PricingUnit"],
            }
            bought = {**priced, **quantity, **_PURCHASED}
            rows += [bought, {**priced, **quantity, **_usage_columns(kind)}]
        else:
            rows.append(priced)
    return rows


def _parts(line: Mapping[str, Any], billed: Decimal, effective: Decimal) -> list[_Part]:
    """Return the parts of a line. Together they are exactly the line, to the last digit."""
    stated = line.get("parts") or [{"price": _only_price(line), "hours": line["hours"] or "0"}]
    if len(stated) > 1 and any(Decimal(part["hours"]) < 0 for part in stated):
        # Corrections can leave less than nothing at a price. Shares of it would mean nothing.
        stated = [{"price": None, "hours": line["hours"]}]
    hours = [Decimal(part["hours"]) for part in stated]
    prices = [None if part["price"] is None else Decimal(part["price"]) for part in stated]
    weights = [
        # By hours × price, since the parts have different prices.
        Fraction(each) * Fraction(price or 0)
        for each, price in zip(hours, prices, strict=True)
    ]
    used = _split(Decimal(line["hours"] or 0), [Fraction(each) for each in hours], 12)
    ratios = _split(Decimal(1), [Fraction(each) for each in hours], 12)
    costs = [_split(cost, weights, _digits(cost)) for cost in (billed, effective)]
    return [_Part(*part) for part in zip(hours, prices, used, *costs, ratios, strict=True)]


def _only_price(line: Mapping[str, Any]) -> str | None:
    """Return the price of a line without parts, None if its hours are not charged at that price.

    Statements of earlier releases have no parts, and differences never have.
    """
    if line["price"] is None or line["hours"] is None:
        return None
    charge = Decimal(line["charge"])
    unit = Fraction(Decimal(1).scaleb(-_digits(charge)))
    exact = Fraction(line["hours"]) * Fraction(line["price"])
    # A difference is of two rounded charges, so that its error is up to twice as large.
    rounding = unit if line["kind"] in DIFFERENCES else unit / 2
    price: str = line["price"]
    return price if abs(exact - Fraction(charge)) <= rounding + _ROUNDED_HOURS else None


def _split(whole: Decimal, weights: list[Fraction], digits: int) -> list[Decimal]:
    """Return the whole in parts of these weights, all of it in the last if they are nothing."""
    if not sum(weights):
        return [*([_NOTHING] * (len(weights) - 1)), whole]
    return divided(whole, weights, digits)


def _digits(amount: Decimal) -> int:
    exponent = amount.as_tuple().exponent
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0


@exactly
def _spread_upfront(lines: list[Mapping[str, Any]]) -> dict[int, Decimal]:
    """Return the amortized upfront cost of lines, by their numbers.

    An upfront price is divided among the month's lines of its commitment by their hours. None of it is
    left on the line of the price.
    """
    paid = defaultdict(list)
    for line in lines:
        if (line["kind"], line["role"]) in _PAID_UPFRONT:
            paid[_commitment(line)].append(line)
    found: dict[int, Decimal] = {}
    for line in lines:
        covered = paid[_commitment(line)] if line["kind"] == LineKind.UPFRONT else []
        if covered:
            cost = Decimal(line["effective"])
            parts = _split(cost, [Fraction(each["hours"]) for each in covered], _digits(cost))
            found |= {each["number"]: part for each, part in zip(covered, parts, strict=True)}
            found[line["number"]] = _NOTHING
    return found


def _price_columns(line: Mapping[str, Any], part: _Part) -> dict[str, Any]:
    """Return the columns of hours at a price."""
    unit = _hours_of(line)
    is_used = _rated_kind(line) != LineKind.UNUSED
    return {
        "ChargeCategory": "Usage",
        "ConsumedQuantity": decimal_text(part.used) if is_used else None,
        "ConsumedUnit": unit if is_used else None,
        "PricingCategory": "Standard",
        "PricingQuantity": decimal_text(part.hours),
        "PricingUnit": unit,
        "SkuId": line["resource"],
        "SkuMeter": f"{line['resource']} hours",
        "SkuPriceId": f"{line['resource']}/{_priced_as(line)}",
        **_costs(part.billed, part.effective, part.price, part.hours),
        "AllocatedMethodDetails": _json(
            {
                "Elements": [
                    {
                        "AllocatedRatio": float(part.ratio),
                        "UsageQuantity": float(part.hours),
                        "UsageUnit": unit,
                    }
                ]
            }
        ),
    }


def _flat_price_columns(
    line: Mapping[str, Any], billed: Decimal, effective: Decimal, unit: str
) -> dict[str, Any]:
    """Return the columns of an item with a single price."""
    name = line["note"] or line["kind"]
    is_difference = line["kind"] in DIFFERENCES
    return {
        "PricingCategory": "Standard",
        "PricingQuantity": None if is_difference else "1",
        "PricingUnit": None if is_difference else unit,
        "SkuId": name,
        "SkuMeter": name,
        "SkuPriceId": name,
        **_costs(billed, effective, None if is_difference else billed, Decimal(1)),
    }


def _usage_columns(kind: str) -> dict[str, Any]:
    """Return the columns in which the usage of committed hours differs from their purchase."""
    return {
        "BilledCost": "0",
        "CommitmentDiscountStatus": _STATUS[LineKind(kind)],
        "PricingCategory": "Committed",
    }


def _costs(
    billed: Decimal,
    effective: Decimal,
    price: Decimal | None = None,
    quantity: Decimal | None = None,
) -> dict[str, Any]:
    """Return the costs. An item with a price costs exactly quantity × price before rounding."""
    listed = billed if price is None or quantity is None else price * quantity
    return {
        "BilledCost": _money(billed),
        "ContractedCost": decimal_text(listed),
        "ContractedUnitPrice": None if price is None else decimal_text(price),
        "EffectiveCost": _money(effective),
        "ListCost": decimal_text(listed),
        "ListUnitPrice": None if price is None else decimal_text(price),
    }


def _common(document: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    pool, tenant = document["pool"], document["tenant"]
    method = document["method"]
    committed = _rated_kind(line) in _COMMITTED and line["role"] != CREDIT
    commitment = _commitment(line) if committed else None
    return {
        # The columns of all versions, of which `focus_rows` keeps those of one.
        **dict.fromkeys((*_OF_EVERY_VERSION, *_OF_VERSION[LATEST])),
        "AllocatedMethodId": f"{method['policy']}/{method['mode']}",
        "AllocatedResourceId": f"{pool}/{tenant}",
        "AllocatedResourceName": tenant,
        "AllocatedTags": _json({"allocator/pool": pool, "allocator/tenant": tenant}),
        "BillingAccountId": pool,
        "BillingAccountName": pool,
        "BillingAccountType": "Pool",
        "BillingCurrency": document["currency"],
        "BillingPeriodEnd": document["to"],
        "BillingPeriodStart": document["from"],
        "ChargeClass": "Correction" if line["kind"] in DIFFERENCES else None,
        "ChargeDescription": _description(line),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": line["to"],
        "ChargePeriodStart": line["from"],
        "CommitmentDiscountCategory": "Usage" if committed else None,
        "CommitmentDiscountId": commitment,
        "CommitmentDiscountName": commitment,
        "CommitmentDiscountType": "Committed quantity" if committed else None,
        "HostProviderName": line["server_owner"] or pool,
        "InvoiceDetailId": str(line["number"]),
        "InvoiceId": f"{pool}/{document['month']}/{tenant}",
        "InvoiceIssuerName": pool,
        "ProviderName": pool,
        "PublisherName": pool,
        "ServiceCategory": "Compute",
        "ServiceName": f"Pool {pool}",
        "ServiceProviderName": pool,
        "ServiceSubcategory": "Other (Compute)",
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


def _rated_kind(line: Mapping[str, Any]) -> str:
    """Return the kind of line that a difference changes, and any other line's own.

    Statements of earlier releases do not name it: their differences are of usage.
    """
    return str(line.get("adjusted_kind") or line["kind"])


def _commitment(line: Mapping[str, Any]) -> str | None:
    """Return the commitment's name, which is the note in statements of earlier releases."""
    number = line.get("commitment")
    note: str | None = line["note"]
    return note if number is None else f"commitment {number}"


def _priced_as(line: Mapping[str, Any]) -> str:
    """Return the commitment of a line, or whose servers its price is for."""
    if _rated_kind(line) in _COMMITTED:
        return str(_commitment(line))
    if line["server_owner"] is None:
        return "pool"
    return "own" if line["server_owner"] == line["user"] else "shared"


def _hours_of(line: Mapping[str, Any]) -> str:
    return f"{line['unit'] or 'Unit'}-Hours"


def _description(line: Mapping[str, Any]) -> str:
    parts = [line["kind"].replace("_", " "), line["resource"], line["note"]]
    return ", ".join(part for part in parts if part)


def _money(amount: Decimal) -> str:
    # + 0 turns -0, which a sum of credits can be, into 0.
    return f"{amount + 0:f}"


def _json(value: Mapping[str, Any]) -> str:
    # Sorted, so that equal values have equal texts.
    return json.dumps(value, sort_keys=True)
