"""Pages of a group of a pool.

They show what the API shows to the group's keys, from the same documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from allocator_service.allocation.models import Run
from allocator_service.allocation.policies import policy_title
from allocator_service.allocation.trees import GROUP, MEMBER, TreeNode
from allocator_service.allocation.what_if.explanations import run_explain
from allocator_service.billing.balances import balances, budgets_for, tenant_balances
from allocator_service.billing.statements.groups import group_months, group_statement
from allocator_service.billing.statements.names import group_statement_names
from allocator_service.billing.statements.pages import group_statement_page
from allocator_service.billing.statements.paper.sheets import group_statement_pdf
from allocator_service.billing.statements.selectors import month_get
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.core.snapshots import one_snapshot
from allocator_service.enforcement.entitlements import GroupEntitlements, group_entitlements
from allocator_service.enforcement.selectors import decision_in_force
from allocator_service.pools.models import GroupTerms, MembershipTerms
from allocator_service.pools.selectors import group_missing, resources_of
from allocator_service.tenants.models import Access
from allocator_service.workloads.reason_texts import Reader
from api.contract.fields import is_slug
from api.pages.amounts import (
    OVER,
    AmountsOfKind,
    Terms,
    amount_rows,
    amounts_by_kind,
)
from api.pages.parts import without_dust, workload_rows
from api.pages.rendering import PDF_LINK, file_response, sheet_response
from api.pages.subtree_changes import present_group, present_member
from api.pages.views import SubtreePage
from api.pages.workloads import WORKLOADS_A_PAGE, workloads_page
from api.subtrees import Subtree
from api.v1.entitlements import group_entitlements_document
from api.v1.evaluations import admitted_evaluation
from api.v1.explanations import explanation_document

CHILDREN_A_PAGE = 100
MONTHS_SHOWN = 24
FIGURES = ("entitled", "has", "lent", "borrowed", "unused")
NAMES = ("Entitled", "Allocated", "Lent", "Borrowed", "Unused")


@dataclass(frozen=True)
class Row:
    """A child of a group with its present terms and what the decision in force gives it.

    `has` and `wants` are empty for a child that the decision does not know.
    """

    kind: str
    slug: str
    name: str
    weight: str
    tier: int
    version: int
    best_effort: bool
    has: Sequence[tuple[Resource, str]]
    wants: Sequence[tuple[Resource, float | None]]
    amounts: Sequence[AmountsOfKind]

    @property
    def has_amounts(self) -> bool:
        """True if it has amounts of any kind."""
        return any(each.rows for each in self.amounts)


@dataclass(frozen=True)
class Children:
    """A page of a group's children. `before` and `after` are where other pages start, None without."""

    rows: Sequence[Row]
    before: int | None
    after: int | None


class SubtreeView(SubtreePage):
    """Page of the visitor's own group, or of one below it.

    `?from=` is the position of the first child to show.
    """

    retired = True

    def get(self, request: HttpRequest, group: str | None = None) -> HttpResponseBase:
        now, subtree = utc_now(), self.subtree
        pool = subtree.pool
        slug = subtree.group.slug if group is None else group
        months = (
            group_months(pool=pool, slug=slug, now=now, within=subtree.group)
            if is_slug(slug)
            else []
        )
        # A closed pool has no decision in force, but its statements stay readable.
        if pool.retired_at is not None:
            return self.shown("subtree", pool=pool, slug=slug, months=months[::-1][:MONTHS_SHOWN])
        # Terms, decision and loans of one state, or a group that moves meanwhile would be shown twice.
        with one_snapshot():
            terms = present_group(subtree, slug)
            found = _entitlements(subtree, slug)
            document = None if found is None else _document(subtree, found)
            nodes = {} if found is None else subtree.nodes_of_run(found.members.run)
            return self.shown(
                "subtree",
                pool=pool,
                slug=slug,
                name=terms.group.name,
                terms=terms,
                path=_path(subtree, terms),
                is_own=terms.group_id == subtree.group.pk,
                may_change=self.caller.access == Access.MANAGE,
                policy=policy_title(pool.policy_name),
                run=None if found is None else found.members.run,
                resources=resources_of(pool),
                balances=balances(
                    pool=pool,
                    budgets=list(budgets_for(pool, None).filter(group=terms.group)),
                    now=now,
                    rates=True,
                ),
                sums=None if document is None else _sums(document, resources_of(pool)),
                amounts=amounts_by_kind(
                    amount_rows(
                        terms,
                        nodes.get((GROUP, slug)),
                        resources=resources_of(pool),
                        now=now,
                        known=known_groups(subtree),
                    ),
                    page="my-subgroup",
                    slug=slug,
                ),
                children=_children(subtree, terms, document, nodes, start=_start(request), now=now),
                months=months[::-1][:MONTHS_SHOWN],
            )


class SubtreeMemberPage(SubtreePage):
    """Page of a member below the group with its workloads and an explanation of what it gets."""

    def get(self, request: HttpRequest, tenant: str) -> HttpResponseBase:
        now, subtree = utc_now(), self.subtree
        pool = subtree.pool
        terms = present_member(subtree, tenant)
        member = terms.membership.tenant
        run = decision_in_force(pool=pool, now=now)
        # A decision from before the member came belongs to another group, which the visitor may not see.
        if run is not None and member.pk not in subtree.of_run(run):
            run = None
        nodes = {} if run is None else subtree.nodes_of_run(run)
        known = [] if run is None else subtree.groups_of_run(run)
        listed = workloads_page(
            pool=pool, tenant=member, cursor=request.GET.get("cursor"), limit=WORKLOADS_A_PAGE
        )
        return self.shown(
            "subtree_member",
            pool=pool,
            member=member,
            terms=terms,
            run=run,
            balances=tenant_balances(pool=pool, tenant=member, now=now),
            explanation=None if run is None else self._explanation(run, terms),
            workloads=workload_rows(
                pool=pool,
                tenant=member,
                run=run,
                workloads=listed.rows,
                reader=Reader(groups=known),
            ),
            amounts=amounts_by_kind(
                amount_rows(
                    terms,
                    nodes.get((MEMBER, tenant)),
                    resources=resources_of(pool),
                    now=now,
                    known=known_groups(subtree),
                ),
                page="my-member",
                slug=tenant,
            ),
            may_change=self.caller.access == Access.MANAGE,
            next_cursor=listed.next_cursor,
        )

    def _explanation(self, run: Run, terms: MembershipTerms) -> dict[str, Any] | None:
        tenant = terms.membership.tenant
        try:
            # Counterfactuals are solved anew: a page must not be a way around the limit of
            # evaluations.
            with admitted_evaluation(self.caller):
                found = run_explain(
                    run=run, tenant=tenant, within=self.subtree.group.slug, now=utc_now()
                )
        except Missing:  # it had no workload when the decision was made
            return None
        return explanation_document(found, run, tenant, is_tenant=False)


class SubtreeStatementPage(SubtreePage):
    """Statement of a group as the API has it, with links, and its PDF file."""

    retired = True

    def get(self, request: HttpRequest, group: str, month: str) -> HttpResponseBase:
        now, subtree = utc_now(), self.subtree
        if not is_slug(group):
            raise group_missing()
        of = month_get(pool=subtree.pool, name=month, now=now)
        document = group_statement(
            pool=subtree.pool, month=of, slug=group, now=now, within=subtree.group
        )
        names = group_statement_names(subtree.pool, document)
        if request.GET.get("format") == "pdf":
            name = f"statement-{subtree.pool.slug}-{of}-{group}.pdf"
            return file_response(group_statement_pdf(document), name, "application/pdf")
        back = (reverse("my-subgroup", args=[group]), f"Group {names.groups.get(group, group)}")
        return sheet_response(group_statement_page(document, names=names, links=[back, PDF_LINK]))


def _entitlements(subtree: Subtree, slug: str) -> GroupEntitlements | None:
    """Return the entitlements of a group, None if no decision knows it yet."""
    try:
        return group_entitlements(pool=subtree.pool, slug=slug, now=utc_now(), within=subtree.group)
    except Missing:
        return None


def _document(subtree: Subtree, found: GroupEntitlements) -> dict[str, Any]:
    return group_entitlements_document(found, outsider=subtree.outsider)


def _sums(
    document: Mapping[str, Any], resources: Sequence[Resource]
) -> list[tuple[str, list[tuple[Resource, Decimal]]]]:
    """Return the figures of the group, each with its amounts by resource."""
    of_group = document["group"]
    shown = {
        each.name: without_dust({of: Decimal(str(of_group[of][each.name])) for of in FIGURES})
        for each in resources
    }
    return [
        (name, [(each, shown[each.name][figure]) for each in resources])
        for name, figure in zip(NAMES, FIGURES, strict=True)
    ]


def _path(subtree: Subtree, terms: GroupTerms) -> list[GroupTerms]:
    """Return the groups from the visitor's own one down to a group."""
    every: dict[int | None, GroupTerms] = {each.group_id: each for each in subtree.terms()}
    path = [terms]
    # It ends, because the visitor's group is above every group that `present_group` finds.
    while path[-1].group_id != subtree.group.pk:
        path.append(every[path[-1].parent_id])
    return path[::-1]


def _children(
    subtree: Subtree,
    of: GroupTerms,
    document: Mapping[str, Any] | None,
    nodes: Mapping[tuple[str, str], TreeNode],
    *,
    start: int,
    now: datetime,
) -> Children:
    """Return the groups and members directly below a group, groups first, each by slug."""
    resources, known = resources_of(subtree.pool), known_groups(subtree)
    has: dict[tuple[str, str], Mapping[str, str]] = {}
    if document is not None:
        has = {(GROUP, row["group"]): row["has"] for row in document["groups"]}
        has |= {(MEMBER, row["tenant"]): row["has"] for row in document["tenants"]}

    def amounts(kind: str, slug: str) -> list[tuple[Resource, str]]:
        found = has.get((kind, slug))
        return [] if found is None else [(each, found[each.name]) for each in resources]

    def wants(kind: str, slug: str) -> list[tuple[Resource, float | None]]:
        node = nodes.get((kind, slug))
        if node is None or node.wants is None:
            return []
        return list(zip(resources, node.wants, strict=True))

    def dated(terms: Terms, kind: str, slug: str) -> list[AmountsOfKind]:
        node = nodes.get((kind, slug))
        rows = amount_rows(terms, node, resources=resources, now=now, known=known)
        page = "my-subgroup" if kind == GROUP else "my-member"
        # Amounts that are over would fill the list of children. The node's own page has them.
        return amounts_by_kind([row for row in rows if row.state != OVER], page=page, slug=slug)

    groups = subtree.terms().filter(parent=of.group).order_by("group__slug")
    members = subtree.members().filter(group=of.group).order_by("membership__tenant__slug")
    in_groups, first = groups.count(), start - 1
    last = first + CHILDREN_A_PAGE
    rows = [
        Row(
            GROUP, each.group.slug, each.group.name, decimal_text(each.weight), each.tier,
            each.group.version, False, amounts(GROUP, each.group.slug),
            wants(GROUP, each.group.slug), dated(each, GROUP, each.group.slug),
        )
        for each in groups[first:last]
    ]  # fmt: skip
    rows += [
        Row(
            MEMBER, tenant.slug, tenant.name, decimal_text(each.weight), each.tier,
            each.membership.version, each.best_effort, amounts(MEMBER, tenant.slug),
            wants(MEMBER, tenant.slug), dated(each, MEMBER, tenant.slug),
        )
        # Groups and members are one list in pages: members continue where the groups end.
        for each in members[max(first - in_groups, 0) : max(last - in_groups, 0)]
        for tenant in [each.membership.tenant]
    ]  # fmt: skip
    total = in_groups + members.count()
    before = max(start - CHILDREN_A_PAGE, 1) if start > 1 else None
    return Children(rows, before, last + 1 if last < total else None)


def known_groups(subtree: Subtree) -> set[str]:
    """Return the slugs of the groups that the visitor may know."""
    return set(subtree.terms().values_list("group__slug", flat=True))


def _start(request: HttpRequest) -> int:
    text = request.GET.get("from", "1")
    # Short, because PostgreSQL refuses an OFFSET beyond 64 bits.
    return max(int(text), 1) if text.isdecimal() and text.isascii() and len(text) < 8 else 1
