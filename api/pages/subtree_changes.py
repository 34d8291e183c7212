"""Changes of weights, tiers and amounts that the manager of a group makes below it."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django import forms
from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from allocator_service.allocation.trees import GROUP, MEMBER
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing, Unacceptable
from allocator_service.enforcement.selectors import decision_in_force
from allocator_service.pools.group_services import GroupSettings, group_update
from allocator_service.pools.limits import Limit, limits_from
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import Group, GroupTerms, Membership, MembershipTerms
from allocator_service.pools.selectors import group_missing, resources_of
from allocator_service.tenants.models import Access, Tenant
from api.auth import read_only
from api.contract.fields import is_slug
from api.pages.amounts import KINDS, AmountForm, AmountKind, Terms, amount_rows
from api.pages.views import SubtreePage, see
from api.subtrees import Subtree


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
        # The row of a table has no room for errors beside its fields: a refusal is a page.
        form = TermsForm(request.POST)
        if not form.is_valid():
            name, errors = next(iter(form.errors.items()))
            raise Unacceptable(f"{name}: {errors[0]}", code="field.type")
        asked = form.cleaned_data
        # The same slug may name a group and a tenant.
        find = present_group if asked["kind"] == "group" else present_member
        changes = {"weight": asked["weight"], "tier": asked["tier"]}
        with transaction.atomic():
            pool_lock(self.subtree.pool)  # what is changed cannot leave the group meanwhile
            terms = find(self.subtree, asked["slug"])
            terms_change(self.subtree, terms, changes, version=asked["version"])
        return see("my-subgroup", _parent(terms))


class RemovalForm(forms.Form):
    """The position of an amount to remove from a node at the version that was read."""

    remove = forms.IntegerField(min_value=0)
    version = forms.IntegerField(min_value=1)


class NodePage(SubtreePage):
    """Base of the pages with forms for a group or member below the visitor's group."""

    http_method_names = ["get", "head", "post"]

    def node_terms(self) -> Terms:
        """Return the present terms of the group or member of the path. Raises `Missing`."""
        if "group" in self.kwargs:
            return present_group(self.subtree, self.kwargs["group"])
        return present_member(self.subtree, self.kwargs["tenant"])

    def shown_of(self, template: str, terms: Terms, **content: Any) -> HttpResponseBase:
        """Answer a page of a group or member."""
        is_own = isinstance(terms, GroupTerms) and terms.group_id == self.subtree.group.pk
        return self.shown(
            template,
            pool=self.subtree.pool,
            slug=node_slug(terms),
            name=node_of(terms).name,
            back=reverse(node_page(terms), args=[node_slug(terms)]),
            # A group's own terms are those that the level above has granted.
            may_change=self.caller.access == Access.MANAGE and not is_own,
            is_own=is_own,
            **content,
        )


class AmountsPage(NodePage):
    """Amounts of one kind of a group or member, with a form for one more below the visitor's group."""

    kind: AmountKind = KINDS[0]

    def get(self, request: HttpRequest, **_: str) -> HttpResponseBase:
        terms = self.node_terms()
        return self._answer(terms, self._form(terms))

    def post(self, request: HttpRequest, **_: str) -> HttpResponseBase:
        if self.caller.access != Access.MANAGE:
            raise read_only()
        with transaction.atomic():
            pool_lock(self.subtree.pool)  # what is changed cannot leave the group meanwhile
            terms = self.node_terms()
            refused = self._changed(terms, request.POST)
        if refused is not None:
            return self._answer(terms, refused)
        return see(f"{node_page(terms)}-{self.kind.plural}", node_slug(terms))

    def _changed(self, terms: Terms, asked: Any) -> AmountForm | None:
        """Remove or add an amount. Returns the form if it was refused."""
        present = limits_from(getattr(terms, self.kind.field))
        if "remove" in asked:
            removal = RemovalForm(asked)
            if not removal.is_valid():
                raise Unacceptable("There is no such amount.", code="field.type")
            at, version = removal.cleaned_data["remove"], removal.cleaned_data["version"]
            # Positions are those of the version that was read, which the service compares.
            self._store(terms, [*present[:at], *present[at + 1 :]], version)
            return None
        form = self._form(terms, asked)
        if form.is_valid():
            try:
                self._store(terms, [*present, *form.entries], form.cleaned_data["version"])
            except Unacceptable as error:
                form.refused(error)
        return form if form.errors else None

    def _store(self, terms: Terms, amounts: Sequence[Limit], version: int) -> None:
        terms_change(self.subtree, terms, {self.kind.field: amounts}, version=version)

    def _form(self, terms: Terms, asked: Any = None) -> AmountForm:
        pool = self.subtree.pool
        return AmountForm(
            asked,
            pool=pool,
            resources=resources_of(pool),
            kind=self.kind,
            version=_versioned(terms).version,
        )

    def _answer(self, terms: Terms, form: AmountForm) -> HttpResponseBase:
        pool, now = self.subtree.pool, utc_now()
        run = decision_in_force(pool=pool, now=now)
        nodes = {} if run is None else self.subtree.nodes_of_run(run)
        node = nodes.get((_kind(terms), node_slug(terms)))
        rows = amount_rows(terms, node, resources=resources_of(pool), now=now)
        return self.shown_of(
            "amounts",
            terms,
            status=HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK,
            kind=self.kind,
            rows=[row for row in rows if row.kind == self.kind],
            form=form,
            version=_versioned(terms).version,
        )


def terms_change(
    subtree: Subtree, terms: Terms, changes: Mapping[str, Any], *, version: int
) -> None:
    """Change fields of the present terms of a group or member below the visitor's group."""
    if isinstance(terms, GroupTerms):
        subtree.refuse_own(terms.group)
        settings = {
            # The service replaces all of these settings, so those that stay are sent along.
            "name": terms.group.name,
            "parent": _parent(terms),
            "weight": terms.weight,
            "tier": terms.tier,
            **changes,
        }
        group_update(
            group=terms.group, settings=GroupSettings(**settings), version=version, now=utc_now()
        )
        return
    settings = {
        "weight": terms.weight,
        "best_effort": terms.best_effort,
        "group": _parent(terms),
        "tier": terms.tier,
        **changes,
    }
    member_put(
        pool=subtree.pool,
        tenant=terms.membership.tenant,
        version=version,
        now=utc_now(),
        **settings,
    )


def _parent(terms: Terms) -> str:
    """Return the group directly above a group or member below the visitor's group."""
    above = terms.parent if isinstance(terms, GroupTerms) else terms.group
    assert above is not None  # noqa: S101 # it is below the visitor's group
    return above.slug


def _versioned(terms: Terms) -> Group | Membership:
    return terms.group if isinstance(terms, GroupTerms) else terms.membership


def _kind(terms: Terms) -> str:
    return GROUP if isinstance(terms, GroupTerms) else MEMBER


def node_of(terms: Terms) -> Group | Tenant:
    """Return the group, or the tenant of the member, that terms are of."""
    return terms.group if isinstance(terms, GroupTerms) else terms.membership.tenant


def node_page(terms: Terms) -> str:
    """Return the name of the route of a node's own page."""
    return "my-subgroup" if isinstance(terms, GroupTerms) else "my-member"


def node_slug(terms: Terms) -> str:
    """Return the slug by which pages name a node."""
    return node_of(terms).slug
