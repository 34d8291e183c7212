"""Budgets of groups and members, with the forms of a group's manager below its group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from http import HTTPStatus
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone

from allocator_service.billing.balances import Balance, balances, budgets_for
from allocator_service.billing.budgets import (
    BudgetDraft,
    budget_create,
    budget_retire,
    budget_update,
    budget_warning,
)
from allocator_service.billing.models import Budget
from allocator_service.billing.models.watching import CALENDAR_MONTH, default_thresholds
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Conflict, DomainError, Missing, Unacceptable
from allocator_service.core.quantities import Resource, decimal_text
from allocator_service.pools.budgets import Then
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import GroupTerms, Pool
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import Access
from api.auth import read_only
from api.contract.documents import read_document
from api.contract.errors import domain_error
from api.contract.fields import uuid_or_none
from api.pages.amounts import Terms
from api.pages.subtree_changes import NodePage, node_of, node_page, node_slug
from api.pages.views import see
from api.v1.budgets import BudgetRequest, budget_periods, budget_settings

# Periods by name. Others are set by the API.
PERIODS: Mapping[str, str] = {
    CALENDAR_MONTH: "calendar month",
    "P7D": "week, from Monday",
    "P1D": "day",
    "P3M": "quarter",
    "P1Y": "calendar year",
}
_ONE_PERIOD = ""
_EFFECTS: Mapping[str, str] = {
    Then.NOTIFY.value: "events only",
    Then.LAST.value: "everything below is served after everybody else",
    Then.STOP.value: "nothing of the resource is allocated below",
}
_LONGEST = 60


@dataclass(frozen=True)
class BudgetRow:
    """A budget of a node, and its balance, which is None outside of its periods."""

    budget: Budget
    balance: Balance | None
    href: str

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
            each, by_budget.get(each.pk), reverse(page, args=[node_slug(terms), str(each.pk)])
        )
        for each in budgets
    ]


def _budgets_of(terms: Terms, pool: Pool) -> QuerySet[Budget]:
    of_pool = budgets_for(pool, None)
    if isinstance(terms, GroupTerms):
        return of_pool.filter(group=terms.group)
    return of_pool.filter(tenant=terms.membership.tenant)


class BudgetForm(forms.Form):
    """A budget of a node, or other settings of one, whose node, resource and periods stay.

    `fields_read` of a valid form holds the fields of a request of the API. `confirmed` is the amount
    that the manager has confirmed although it is spent already.
    """

    fields_read: Mapping[str, Any]

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    confirmed = forms.CharField(required=False, max_length=_LONGEST, widget=forms.HiddenInput)
    resource = forms.ChoiceField(help_text="What the hours are of.")
    amount = forms.CharField(
        max_length=_LONGEST,
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
    )
    period = forms.ChoiceField(
        choices=[*PERIODS.items(), (_ONE_PERIOD, "one period between the dates below")],
        required=False,
        label="For each",
    )
    start = forms.DateTimeField(required=False, label="From")
    end = forms.DateTimeField(required=False, label="Until")
    carry = forms.CharField(
        required=False,
        max_length=_LONGEST,
        label="Carried over, percent",
        help_text="Part of the amount that is carried over, if unused, into the next period.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
    )
    then = forms.ChoiceField(
        choices=list(_EFFECTS.items()),
        required=False,
        label="Once it is spent, until the period ends",
    )
    thresholds = forms.CharField(
        max_length=200,
        label="Events at percent",
        help_text="Percentages of the amount, each reported once in a period, such as 50, 80, 100.",
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        pool: Pool,
        resources: Sequence[Resource],
        budget: Budget | None = None,
    ) -> None:
        super().__init__(data, initial=_initial(budget), label_suffix="")
        self._pool, self._budget = pool, budget
        unit = "hours of the resource" if budget is None or budget.resource else pool.currency
        self.fields["amount"].help_text = f"In {unit}, for a period."
        self.fields["resource"].choices = [(each.name, each.name) for each in resources]  # type: ignore[attr-defined]
        for name, empty in (("start", "with the calendar"), ("end", "it is withdrawn")):
            field = self.fields[name]
            field.help_text = f"By the clock of the pool, {pool.timezone}. Empty: {empty}."
            field.widget = forms.DateTimeInput(
                attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"
            )
        absent: list[str] = ["version"]
        if budget is not None:
            absent = ["resource", "period", "start", "end"]
            # The service refuses both for a budget of money.
            absent += [] if budget.resource else ["carry", "then"]
            absent += [] if budget.per else ["carry"]
        for name in set(absent):
            del self.fields[name]

    def full_clean(self) -> None:
        """Read dates by the clock of the pool."""
        with timezone.override(ZoneInfo(self._pool.timezone)):
            super().full_clean()

    def clean_carry(self) -> str:
        """Return the percentage as a fraction."""
        text = str(self.cleaned_data["carry"]).strip() or "0"
        try:
            return decimal_text(Decimal(text) / 100)
        except (InvalidOperation, ValueError) as error:
            raise forms.ValidationError(f"{text}: expected a number from 0 to 100.") from error

    def clean_thresholds(self) -> list[int]:
        """Return the percentages, which commas or spaces separate."""
        parts = str(self.cleaned_data["thresholds"]).replace(",", " ").split()
        for part in parts:
            if not (part.isascii() and part.isdecimal()):
                raise forms.ValidationError(f"{part}: expected whole percentages, such as 50, 100.")
        return [int(part) for part in parts]

    def clean(self) -> dict[str, Any]:
        """Read the fields as the API does, so that both refuse the same."""
        cleaned: dict[str, Any] = super().clean() or {}
        if self._budget is None and cleaned.get("period") == _ONE_PERIOD:
            for name in ("start", "end"):
                if name not in self.errors and cleaned.get(name) is None:
                    self.add_error(name, "A budget of one period must have both dates.")
        if self.errors:
            return cleaned
        try:
            self.fields_read = read_document(BudgetRequest, self._document(cleaned))
        except DomainError as error:
            self.refused(error)
        return cleaned

    def refused(self, error: DomainError) -> None:
        """Put the errors of the service beside the fields that they name."""
        for each in error.errors:
            self.add_error(self._field_of(each.pointer), each.detail)
        if not error.errors:
            self.add_error(None, error.detail)

    def is_confirmed(self) -> bool:
        """Return whether the manager has confirmed this amount."""
        # Compared with the amount: a confirmation must not cover an amount that was edited since.
        return bool(self.cleaned_data["confirmed"] == self.cleaned_data["amount"])

    def ask(self) -> None:
        """Have the next sending confirm the present amount."""
        names = [*self.fields, "csrfmiddlewaretoken"]
        # Data of a request cannot be changed. The copy keeps the token that the next POST needs.
        sent = {name: self.data[name] for name in names if name in self.data}
        self.data = {**sent, "confirmed": self.cleaned_data["amount"]}

    def _document(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        document = {name: cleaned[name] for name in ("amount", "thresholds")}
        document["amount"] = document["amount"].strip()
        document["carry"] = cleaned.get("carry", "0")
        document["then"] = cleaned.get("then") or None
        if self._budget is None:
            document["resource"] = cleaned["resource"]
            document["per"] = cleaned["period"] or None
            dates = {
                name: cleaned[field].isoformat()
                for name, field in (("from", "start"), ("to", "end"))
                if cleaned[field] is not None
            }
            document |= dates
        return document

    def _field_of(self, pointer: str) -> str | None:
        named = pointer.split("/")[1] if pointer else ""
        name = {"per": "period", "from": "start", "to": "end"}.get(named, named)
        return name if name in self.fields else None


def _initial(budget: Budget | None) -> dict[str, Any]:
    if budget is None:
        thresholds = default_thresholds()
        values: dict[str, Any] = {"period": CALENDAR_MONTH, "carry": "0"}
    else:
        thresholds = budget.thresholds
        values = {
            "amount": decimal_text(budget.amount),
            "carry": decimal_text(budget.carry * 100),
            "then": budget.then,
            "version": budget.version,
        }
    return {**values, "thresholds": ", ".join(map(str, thresholds))}


class WithdrawalForm(forms.Form):
    """The budget to withdraw at the version that was read."""

    withdraw = forms.UUIDField()
    version = forms.IntegerField(min_value=1)


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
            version = form.cleaned_data["version"]
            return budget_update(budget=budget, settings=settings, version=version, now=now)
        draft = BudgetDraft(node_of(terms), fields["resource"], settings, budget_periods(fields))
        return budget_create(pool=self.subtree.pool, draft=draft, now=now)


class BudgetsPage(_BudgetPage):
    """The budgets of a group or member, with a form for one more below the visitor's group."""

    def get(self, request: HttpRequest, **_: str) -> HttpResponseBase:
        return self._answer(self.node_terms(), self.form())

    def change(self, terms: Terms, asked: Any) -> HttpResponseBase | None:
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
