"""Declarations of limits, guarantees and loans in an evaluation document."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from policies.documents.request_fields import (
    Part,
    dates_refused,
)
from policies.fields import (
    AmountsField,
    Document,
    ListField,
    MapField,
    OneOrMoreField,
    StringField,
)

# Of one group, tenant or workload.
MOST_LIMITS = 100


def _where(description: str) -> MapField:
    return MapField(
        OneOrMoreField(StringField(), as_list=True, code="selector.empty"),
        default=dict,
        description=f"{description} An empty object is every server.",
    )


class LimitDocument(Part):
    refused_names = dates_refused("limit")
    where = _where("Labels of the servers on which the limit holds.")
    amount = AmountsField(
        unknown="limit.unknown_resource", empty="limit.empty", unnamed=inf,
        description="Greatest amount of each resource. Resources that are not named have no limit.",
    )  # fmt: skip


class GuaranteeDocument(Part):
    refused_names = dates_refused("guarantee")
    where = _where("Labels of the servers on which the amount is guaranteed.")
    amount = AmountsField(
        unknown="guarantee.unknown_resource", empty="guarantee.empty", unnamed=inf,
        description="Guaranteed amount of each resource. Resources that are not named are unlimited in"
        " the pool of the guarantee.",
    )  # fmt: skip


class LendDocument(Part):
    refused_names = dates_refused("lend")
    where = _where("Labels of the tenant's own servers on which the loan is limited.")
    amount = AmountsField(
        unknown="lend.unknown_resource", empty="lend.empty", unnamed=inf,
        description="Greatest amount of each resource that all others may have together. Resources that"
        " are not named have no limit.",
    )  # fmt: skip


_AMOUNTS: dict[str, tuple[type[Document], str]] = {
    "limit": (LimitDocument, "Greatest amounts that are allocated at or below the node."),
    "guarantee": (GuaranteeDocument, "Amounts that the workloads below the node can always have."),
    "lend": (LendDocument, "Greatest amounts that others may have on the servers of the tenant."),
}


def amount_rows(kind: str, resources: Mapping[str, str] | None = None) -> ListField:
    """Return the field with the rows of limits, guarantees or loans of a node."""
    document, description = _AMOUNTS[kind]
    if resources is not None:
        amount: Any = document.fields["amount"]
        document = document.with_fields(amount=amount.within(resources))
    return ListField(
        document, min_items=0, max_items=MOST_LIMITS, code=f"{kind}.too_many", default=list,
        description=description,
    )  # fmt: skip
