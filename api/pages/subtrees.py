"""Pages of a group of a pool.

They show what the API shows to the group's keys, from the same documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from allocator_service.allocation.models import Run
from allocator_service.allocation.policies import policy_title
from allocator_service.allocation.what_if.explanations import run_explain
from allocator_service.billing.balances import balances, budgets_for, tenant_balances
from allocator_service.billing.statements.groups import group_months, group_statement
from allocator_service.billing.statements.pages import group_statement_page
from allocator_service.billing.statements.selectors import month_get
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing, Unacceptable
from allocator_service.core.headers import PAGE_POLICY
from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.core.snapshots import one_snapshot
from allocator_service.enforcement.entitlements import GroupEntitlements, group_entitlements
from allocator_service.enforcement.selectors import decision_in_force
from allocator_service.pools.group_services import GroupSettings, group_update
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import GroupTerms, MembershipTerms
from allocator_service.pools.selectors import group_missing, resources_of
from allocator_service.tenants.models import Access
from api.auth import read_only
from api.contract.fields import is_slug
from api.pages.parts import workload_rows
from api.pages.rendering import PageResponse
from api.pages.views import SubtreePage, see
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

    `has` is empty for a child that the decision does not know.
    """

    kind: str
    slug: str
    name: str
    weight: str
    tier: int
    version: int
    best_effort: bool
    has: Sequence[tuple[Resource, str]]


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
        if pool.retired_at is not None:
            return self.shown("subtree", pool=pool, slug=slug, months=months[::-1][:MONTHS_SHOWN])
        with one_snapshot():
            terms = present_group(subtree, slug)
            found = _entitlements(subtree, slug)
            document = None if found is None else _document(subtree, found)
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
                children=_children(subtree, terms, document, _start(request)),
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
        if run is not None and member.pk not in subtree.of_run(run):
            run = None
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
            workloads=workload_rows(pool=pool, tenant=member, run=run, workloads=listed.rows),
            next_cursor=listed.next_cursor,
        )

    def _explanation(self, run: Run, terms: MembershipTerms) -> dict[str, Any] | None:
        tenant = terms.membership.tenant
        try:
            with admitted_evaluation(self.caller):
                found = run_explain(run=run, tenant=tenant, within=self.subtree.group.slug)
        except Missing:  # it had no workload when the decision was made
            return None
        return explanation_document(found, run, tenant)


class SubtreeStatementPage(SubtreePage):
    """Statement of a group to print, as the API has it."""

    retired = True

    def get(self, request: HttpRequest, group: str, month: str) -> HttpResponseBase:
        now, subtree = utc_now(), self.subtree
        if not is_slug(group):
            raise group_missing()
        of = month_get(pool=subtree.pool, name=month, now=now)
        document = group_statement(
            pool=subtree.pool, month=of, slug=group, now=now, within=subtree.group
        )
        headers = {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-store"}
        return PageResponse(group_statement_page(document), headers=headers)


class TermsForm(forms.Form):
    """Another weight and tier of a child, which must still be at the version that was read."""

    kind = forms.ChoiceField(choices=[("group", "group"), ("member", "member")])
    slug = forms.CharField(max_length=63)
    weight = forms.DecimalField(max_digits=24, decimal_places=12)
    tier = forms.IntegerField()
    version = forms.IntegerField(min_value=1)


class ChangeTermsView(SubtreePage):
    """Change of the weight and tier of a child."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponseBase:
        if self.caller.access != Access.MANAGE:
            raise read_only()
        form = TermsForm(request.POST)
        if not form.is_valid():
            name, errors = next(iter(form.errors.items()))
            raise Unacceptable(f"{name}: {errors[0]}", code="field.type")
        change = _change_group if form.cleaned_data["kind"] == "group" else _change_member
        with transaction.atomic():
            pool_lock(self.subtree.pool)  # what is changed cannot leave the group meanwhile
            parent = change(self.subtree, form.cleaned_data)
        return see("my-subgroup", parent)


def present_group(subtree: Subtree, slug: str) -> GroupTerms:
    """Return the present terms of a group. Raises `Missing` unless it is the visitor's or below."""
    found = subtree.terms().filter(group__slug=slug).first() if is_slug(slug) else None
    if found is None:
        raise group_missing()
    found.group.pool = subtree.pool
    return found


def present_member(subtree: Subtree, slug: str) -> MembershipTerms:
    """Return the present terms of a member. Raises `Missing` unless it is below the group."""
    members = subtree.members().filter(membership__tenant__slug=slug) if is_slug(slug) else None
    found = None if members is None else members.first()
    if found is None:
        raise Missing("There is no such member.", code="member.not_found")
    return found


def _change_group(subtree: Subtree, asked: Mapping[str, Any]) -> str:
    """Change a group below the visitor's. Returns the slug of its parent."""
    present = present_group(subtree, asked["slug"])
    subtree.refuse_own(present.group)
    assert present.parent is not None  # noqa: S101 # it is below the visitor's group
    settings = GroupSettings(
        present.group.name, present.parent.slug, asked["weight"], asked["tier"]
    )
    group_update(group=present.group, settings=settings, version=asked["version"], now=utc_now())
    return present.parent.slug


def _change_member(subtree: Subtree, asked: Mapping[str, Any]) -> str:
    """Change a member below the visitor's group. Returns the slug of its group."""
    present = present_member(subtree, asked["slug"])
    assert present.group is not None  # noqa: S101 # it is below the visitor's group
    member_put(
        pool=subtree.pool,
        tenant=present.membership.tenant,
        weight=asked["weight"],
        best_effort=present.best_effort,
        group=present.group.slug,
        tier=asked["tier"],
        version=asked["version"],
        now=utc_now(),
    )
    return present.group.slug


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
) -> list[tuple[str, list[tuple[Resource, str]]]]:
    """Return the figures of the group, each with its amounts by resource."""
    of_group = document["group"]
    return [
        (name, [(each, of_group[figure][each.name]) for each in resources])
        for name, figure in zip(NAMES, FIGURES, strict=True)
    ]


def _path(subtree: Subtree, terms: GroupTerms) -> list[GroupTerms]:
    """Return the groups from the visitor's own one down to a group."""
    every: dict[int | None, GroupTerms] = {each.group_id: each for each in subtree.terms()}
    path = [terms]
    while path[-1].group_id != subtree.group.pk:
        path.append(every[path[-1].parent_id])
    return path[::-1]


def _children(
    subtree: Subtree, of: GroupTerms, document: Mapping[str, Any] | None, start: int
) -> Children:
    """Return the groups and members directly below a group, groups first, each by slug."""
    resources = resources_of(subtree.pool)
    has: dict[tuple[str, str], Mapping[str, str]] = {}
    if document is not None:
        has = {("group", row["group"]): row["has"] for row in document["groups"]}
        has |= {("member", row["tenant"]): row["has"] for row in document["tenants"]}

    def amounts(kind: str, slug: str) -> list[tuple[Resource, str]]:
        found = has.get((kind, slug))
        return [] if found is None else [(each, found[each.name]) for each in resources]

    groups = subtree.terms().filter(parent=of.group).order_by("group__slug")
    members = subtree.members().filter(group=of.group).order_by("membership__tenant__slug")
    in_groups, first = groups.count(), start - 1
    last = first + CHILDREN_A_PAGE
    rows = [
        Row(
            "group", each.group.slug, each.group.name, decimal_text(each.weight), each.tier,
            each.group.version, False, amounts("group", each.group.slug),
        )
        for each in groups[first:last]
    ]  # fmt: skip
    rows += [
        Row(
            "member", tenant.slug, tenant.name, decimal_text(each.weight), each.tier,
            each.membership.version, each.best_effort, amounts("member", tenant.slug),
        )
        for each in members[max(first - in_groups, 0) : max(last - in_groups, 0)]
        for tenant in [each.membership.tenant]
    ]  # fmt: skip
    total = in_groups + members.count()
    before = max(start - CHILDREN_A_PAGE, 1) if start > 1 else None
    return Children(rows, before, last + 1 if last < total else None)


def _start(request: HttpRequest) -> int:
    text = request.GET.get("from", "1")
    return max(int(text), 1) if text.isdecimal() and text.isascii() and len(text) < 8 else 1
