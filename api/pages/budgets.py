"""Pages of budgets of groups and members, which a group's manager changes below its group."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from http import HTTPStatus
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

from allocator_service.billing.balances import Balance, balances, budgets_for, spent_by_cluster
from allocator_service.billing.budgets import (
    BudgetDraft,
    budget_create,
    budget_retire,
    budget_update,
    budget_warning,
)
from allocator_service.billing.models import Budget
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Conflict, Missing, Unacceptable
from allocator_service.core.quantities import decimal_text
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import GroupTerms, Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Access
from api.auth import read_only
from api.contract.errors import domain_error
from api.contract.fields import uuid_or_none
from api.pages.amounts import Terms
from api.pages.budget_forms import PERIODS, BudgetForm, WithdrawalForm
from api.pages.subtree_changes import NodePage, node_of, node_page, node_slug
from api.pages.views import see
from api.v1.budgets import budget_periods, budget_settings


@dataclass(frozen=True)
class BudgetRow:
    """A budget of a node, and its balance, which is None outside of its periods.

    `clusters` have what is spent on each, none in a pool without clusters.
    """

    budget: Budget
    balance: Balance | None
    href: str
    clusters: Sequence[tuple[str | None, str]] = ()

    @property
    def period(self) -> str:
        """The period as people read it, empty for the one from the start to the end."""
        per = self.budget.per
        return f"per {PERIODS.get(per, per).partition(',')[0]}" if per else ""

    @property
    def unit(self) -> str:
        """Unit of the amount."""
        return "hours" if self.budget.resource else str(self.budget.pool.currency)

    @property
    def carried(self) -> Decimal:
        """Percentage that is carried over."""
        return self.budget.carry * 100

    @property
    def thresholds(self) -> str:
        """Percentages at which events are recorded."""
        return ", ".join(map(str, self.budget.thresholds))

    @property
    def amount(self) -> str:
        """Amount of a period with all its digits."""
        return decimal_text(self.budget.amount)


def budget_rows(terms: Terms, *, pool: Pool) -> list[BudgetRow]:
    """Return the budgets of a group or member, oldest first."""
    budgets = list(_budgets_of(terms, pool).order_by("id"))
    found = balances(pool=pool, budgets=budgets, now=utc_now(), rates=True)
    by_budget = {each.budget.pk: each for each in found}
    page = f"{node_page(terms)}-budget"
    return [
        BudgetRow(
            each,
            by_budget.get(each.pk),
            reverse(page, args=[node_slug(terms), str(each.pk)]),
            _clusters(by_budget.get(each.pk)),
        )
        for each in budgets
    ]


def _clusters(balance: Balance | None) -> list[tuple[str | None, str]]:
    """Return what a budget has spent on each cluster, as text."""
    if balance is None:
        return []
    spent = spent_by_cluster(budget=balance.budget, period=balance.period)
    return [(cluster, balance.text(amount)) for cluster, amount in spent]


def _budgets_of(terms: Terms, pool: Pool) -> QuerySet[Budget]:
    of_pool = budgets_for(pool, None)
    if isinstance(terms, GroupTerms):
        return of_pool.filter(group=terms.group)
    return of_pool.filter(tenant=terms.membership.tenant)


class _BudgetPage(NodePage):
    """Base of the pages that change budgets."""

    def post(self, request: HttpRequest, **_: str) -> HttpResponseBase:
        if self.caller.access != Access.MANAGE:
            raise read_only()
        with transaction.atomic():
            pool_lock(self.subtree.pool)  # the node cannot leave the group meanwhile
            terms = self.node_terms()
            if isinstance(terms, GroupTerms):
                self.subtree.refuse_own(terms.group)
            answer = self.change(terms, request.POST)
        if answer is not None:
            return answer
        return see(f"{node_page(terms)}-budgets", node_slug(terms))

    def change(self, terms: Terms, asked: Any) -> HttpResponseBase | None:
        """Make the change, or return the page of the form that asks for another."""
        raise NotImplementedError

    def found(self, terms: Terms, key: object) -> Budget:
        """Return a budget of the node. Raises `Missing`."""
        id_ = uuid_or_none(str(key))
        budget = None
        if id_ is not None:
            budget = _budgets_of(terms, self.subtree.pool).filter(pk=id_).first()
        if budget is None:
            raise Missing("There is no such budget.", code="budget.not_found")
        return budget

    def form(self, asked: Any = None, budget: Budget | None = None) -> BudgetForm:
        pool = self.subtree.pool
        return BudgetForm(asked, pool=pool, resources=resources_of(pool), budget=budget)

    def stored(self, form: BudgetForm, terms: Terms, budget: Budget | None) -> str | None:
        """Create or change a budget, and return None.

        A change that is refused, or whose effect the manager has to confirm first, is undone: the
        text is the effect to confirm, empty for errors of the form.
        """
        if not form.is_valid():
            return ""
        try:
            with transaction.atomic():
                # Stored and undone, so that the warning is by the same code as the change.
                stored = self._store(form, terms, budget)
                warning = budget_warning(stored, now=utc_now())
                if warning and not form.is_confirmed():
                    transaction.set_rollback(True)
                    form.ask()
                    return warning
        except (Conflict, Unacceptable) as error:
            form.refused(error)
            return ""
        # The unique constraint decides: a check before it would miss a budget that is stored meanwhile.
        except IntegrityError as error:
            refused = domain_error(error)
            assert refused is not None  # noqa: S101 # of a constraint
            form.refused(refused)
            return ""
        return None

    def _store(self, form: BudgetForm, terms: Terms, budget: Budget | None) -> Budget:
        fields, now = form.fields_read, utc_now()
        settings = budget_settings(fields)
        if budget is not None:
            # That of the page: a change that was made since it was shown is not overwritten.
            version = form.cleaned_data["version"]
            return budget_update(budget=budget, settings=settings, version=version, now=now)
        draft = BudgetDraft(node_of(terms), fields["resource"], settings, budget_periods(fields))
        return budget_create(pool=self.subtree.pool, draft=draft, now=now)


class BudgetsPage(_BudgetPage):
    """The budgets of a group or member, with a form for one more below the visitor's group."""

    def get(self, request: HttpRequest, **_: str) -> HttpResponseBase:
        return self._answer(self.node_terms(), self.form())

    def change(self, terms: Terms, asked: Any) -> HttpResponseBase | None:
        # One address takes both forms of the page: the buttons of the rows send this field.
        if "withdraw" in asked:
            withdrawal = WithdrawalForm(asked)
            if not withdrawal.is_valid():
                raise Unacceptable("There is no such budget.", code="field.type")
            budget = self.found(terms, withdrawal.cleaned_data["withdraw"])
            version = withdrawal.cleaned_data["version"]
            budget_retire(budget=budget, version=version, now=utc_now())
            return None
        form = self.form(asked)
        warning = self.stored(form, terms, None)
        return None if warning is None else self._answer(terms, form, warning)

    def _answer(self, terms: Terms, form: BudgetForm, warning: str = "") -> HttpResponseBase:
        return self.shown_of(
            "budgets",
            terms,
            status=HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK,
            rows=budget_rows(terms, pool=self.subtree.pool),
            form=form,
            warning=warning,
        )


class BudgetPage(_BudgetPage):
    """Form with the present settings of a budget."""

    def get(self, request: HttpRequest, **_: str) -> HttpResponseBase:
        terms = self.node_terms()
        budget = self.found(terms, self.kwargs["budget"])
        return self._answer(terms, self.form(budget=budget), budget)

    def change(self, terms: Terms, asked: Any) -> HttpResponseBase | None:
        budget = self.found(terms, self.kwargs["budget"])
        form = self.form(asked, budget)
        warning = self.stored(form, terms, budget)
        return None if warning is None else self._answer(terms, form, budget, warning)

    def _answer(
        self, terms: Terms, form: BudgetForm, budget: Budget, warning: str = ""
    ) -> HttpResponseBase:
        rows = budget_rows(terms, pool=self.subtree.pool)
        return self.shown_of(
            "budget",
            terms,
            status=HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK,
            row=next(row for row in rows if row.budget.pk == budget.pk),
            form=form,
            warning=warning,
            all=reverse(f"{node_page(terms)}-budgets", args=[node_slug(terms)]),
        )
