"""The tenants' parts of a pool's decision, by page.

Only the page's rows are added up. The decision's servers and tenants are read, its workloads are not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from django.contrib.postgres.aggregates import ArrayAgg
from django.core.paginator import Page, Paginator
from django.db import connection
from django.db.models import Count, F, FilteredRelation, Max, Q, QuerySet

from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import input_of
from allocator_service.core.errors import Gone
from allocator_service.core.quantities import Resource
from allocator_service.pools.models import MembershipTerms, Pool
from allocator_service.pools.selectors import members_of
from allocator_service.workloads.reason_texts import OPERATOR, reason_text
from policies import entitled_partition, problem_from_document

TENANTS_A_PAGE = 25
BY_SHARE, BY_NAME, BY_LEAST = "share", "name", "least"
ORDERS = {BY_SHARE: "most first", BY_LEAST: "least weighted share first", BY_NAME: "by name"}
_ORDERED: Mapping[str, Sequence[Any]] = {
    BY_SHARE: [F("share").desc(nulls_last=True)],
    BY_LEAST: [F("weighted_share").asc(nulls_last=True)],
    BY_NAME: [],
}
_SLUG, _NAME = "membership__tenant__slug", "membership__tenant__name"
_PARTS_OF_TERMS = {"resources", "servers", "groups", "tenants", "policy", "weights"}


@dataclass(frozen=True)
class Asked:
    """The requested search, order and page of the tenants.

    `search` selects tenants whose slug or name contains it.
    """

    search: str = ""
    order: str = BY_SHARE
    page: str = "1"

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Asked":
        """Return the request in the query of a URL, with the default in place of an invalid order."""
        order = query.get("order", BY_SHARE)
        return cls(
            query.get("q", "").strip()[:200],
            order if order in ORDERS else BY_SHARE,
            query.get("page", "1"),
        )


@dataclass(frozen=True)
class TenantShare:
    """A tenant's part of a decision.

    Vectors are in the order and units of the pool's resources. `contributed` and `entitled` are unknown
    once the run is pruned. `reasons` are sentences on why its workloads did not get more.
    """

    key: int
    slug: str
    name: str
    weight: Decimal
    best_effort: bool
    workloads: int
    share: float | None
    weighted_share: float | None
    reasons: Sequence[str]
    contributed: Sequence[float | None]
    entitled: Sequence[float | None]
    allocated: Sequence[float]

    @property
    def parts(self) -> list[list[tuple[str, float | None]]]:
        """Named amounts by resource, in the order of the pool's resources."""
        names = ("allocated", "entitled", "contributed")
        amounts = zip(self.allocated, self.entitled, self.contributed, strict=True)
        return [list(zip(names, each, strict=True)) for each in amounts]


@dataclass(frozen=True)
class SharePage:
    """A page of the pool's tenants.

    `members` is the number of all tenants, `found` the number that match the search.
    """

    asked: Asked
    page: "Page[dict[str, Any]]"
    rows: Sequence[TenantShare]
    members: int

    @property
    def found(self) -> int:
        return self.page.paginator.count

    @property
    def pages(self) -> list[int | str]:
        """The numbers of the pages to link to, including the last two and those around this one."""
        return list(self.page.paginator.get_elided_page_range(self.page.number))


def share_page(pool: Pool, run: Run, resources: Sequence[Resource], asked: Asked) -> SharePage:
    """Return the requested page of tenants, with their parts of a succeeded run's decision."""
    memberships = members_of(pool=pool)
    matching = memberships
    if asked.search:
        matching = matching.filter(
            Q(**{f"{_SLUG}__icontains": asked.search}) | Q(**{f"{_NAME}__icontains": asked.search})
        )
    paginator = Paginator(_with_parts(matching, run, asked.order), TENANTS_A_PAGE)
    page = paginator.get_page(asked.page)
    found = list(page.object_list)
    try:
        terms = _terms(run, len(resources))
        nothing: Sequence[float | None] = [0.0] * len(resources)
    except Gone:
        terms, nothing = {}, [None] * len(resources)
    allocated = _allocated(run, [row["membership__tenant"] for row in found], len(resources))
    none = [0.0] * len(resources)
    rows = [
        TenantShare(
            row["membership__tenant"],
            row[_SLUG],
            row[_NAME],
            row["weight"],
            row["best_effort"],
            row["workloads"],
            row["share"],
            row["weighted_share"],
            _reason_texts(row["reasons"]),
            *terms.get(row[_SLUG], (nothing, nothing)),
            allocated.get(row["membership__tenant"], none),
        )
        for row in found
    ]
    members = memberships.count() if asked.search else paginator.count
    return SharePage(asked, page, rows, members)


def _with_parts(
    members: QuerySet[MembershipTerms], run: Run, order: str
) -> "QuerySet[Any, dict[str, Any]]":
    part = FilteredRelation(
        "membership__tenant__allocations", condition=Q(membership__tenant__allocations__run=run)
    )
    rows: QuerySet[Any, dict[str, Any]] = (
        members.select_related(None)
        .annotate(part=part)
        .values("membership__tenant", _SLUG, _NAME, "weight", "best_effort")
        .annotate(
            workloads=Count("part"),
            share=Max("part__tenant_share"),
            weighted_share=Max("part__weighted_share"),
            reasons=ArrayAgg("part__limited_by", default=[], filter=~Q(part__limited_by=None)),
        )
        .order_by(*_ORDERED[order], _SLUG)
    )
    return rows


def _reason_texts(reasons: Iterable[str]) -> list[str]:
    """Return the text of each reason, with the number of its workloads where there are several."""
    counts = Counter(reasons)
    texts = []
    for reason, count in sorted(counts.items()):
        whose = "" if len(counts) == 1 else f"{count} workload{'' if count == 1 else 's'}: "
        texts.append(whose + reason_text(reason, OPERATOR))
    return texts


def _terms(run: Run, width: int) -> dict[str, tuple[list[float], list[float]]]:
    """Return each tenant's contribution to the decision and its entitlement, by slug."""
    document = input_of(run)
    terms = {part: document[part] for part in _PARTS_OF_TERMS & document.keys()}
    problem = problem_from_document(terms).problem
    contributed, entitled = np.zeros((problem.t, width)), np.zeros((problem.t, width))
    owned = problem.contributed_by >= 0
    capacity = problem.capacity * problem.server_count[:, None]
    np.add.at(contributed[:, : problem.m], problem.contributed_by[owned], capacity[owned])
    entitled[:, : problem.m] = entitled_partition(problem)
    return {
        slug: (brought, due)
        for slug, brought, due in zip(
            problem.tenants, contributed.tolist(), entitled.tolist(), strict=True
        )
    }


def _allocated(run: Run, tenants: Sequence[int], width: int) -> dict[int, list[float]]:
    """Return the resources that the run gives to each of the tenants in total."""
    sums: dict[int, list[float]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT tenant_id, place - 1, sum(amount) FROM run_allocation,
                unnest(resources) WITH ORDINALITY AS part (amount, place)
            WHERE run_id = %s AND tenant_id = ANY(%s) GROUP BY tenant_id, place
            """,
            [run.pk, list(tenants)],
        )
        for tenant, place, amount in cursor.fetchall():
            sums.setdefault(tenant, [0.0] * width)[place] = amount
    return sums
