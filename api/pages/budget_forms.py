"""Forms in which a manager sets and withdraws budgets."""

from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.utils import timezone

from allocator_service.billing.models import Budget
from allocator_service.billing.models.watching import CALENDAR_MONTH, default_thresholds
from allocator_service.core.dates import date_validator
from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import Resource, decimal_text, plain_decimal
from allocator_service.core.service_forms import add_refusal
from allocator_service.pools.budgets import Then
from allocator_service.pools.models import Pool
from api.contract.documents import read_document
from api.v1.budgets import BudgetRequest

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


class BudgetForm(forms.Form):
    """A budget of a node, or other settings of one, whose node, resource and periods stay.

    `fields_read` of a valid form holds the fields of a request of the API. `confirmed` is the amount
    that the manager has confirmed although it is spent already.
    """

    fields_read: Mapping[str, Any]

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    confirmed = forms.CharField(required=False, max_length=_LONGEST, widget=forms.HiddenInput)
    resource = forms.ChoiceField(help_text="Resource whose hours are counted.")
    amount = forms.CharField(
        max_length=_LONGEST,
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
    )
    period = forms.ChoiceField(
        choices=[*PERIODS.items(), (_ONE_PERIOD, "one period between the dates below")],
        required=False,
        label="For each",
    )
    start = forms.DateTimeField(required=False, label="From", validators=[date_validator("from")])
    end = forms.DateTimeField(required=False, label="Until", validators=[date_validator("to")])
    carry = forms.CharField(
        required=False,
        max_length=_LONGEST,
        label="Carried over, percent",
        help_text="Greatest part of the amount that is carried over unused into the next period.",
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
        help_text="Percentages of the period's amount, with what was carried over, such as 50, 80, 100."
        " Each is reported once per period.",
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
        self.fields["amount"].help_text = f"In {unit}, for each period."
        self.fields["resource"].choices = [(each.name, each.name) for each in resources]  # type: ignore[attr-defined]
        for name, empty in (
            ("start", "periods follow the calendar"),
            ("end", "until it is withdrawn"),
        ):
            field = self.fields[name]
            field.help_text = f"In the pool's time zone, {pool.timezone}. Empty: {empty}."
            field.widget = forms.DateTimeInput(
                attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"
            )
        absent: list[str] = ["version"]
        if budget is not None:
            absent = ["resource", "period", "start", "end"]
            # The service refuses both for a budget of money.
            absent += [] if budget.resource else ["carry", "then"]
            absent += [] if budget.per else ["carry"]
        # Two rules can name carry, that of money and that of a single period.
        for name in set(absent):
            del self.fields[name]

    def full_clean(self) -> None:
        """Read dates by the clock of the pool."""
        with timezone.override(ZoneInfo(self._pool.timezone)):
            super().full_clean()

    def clean_carry(self) -> str:
        """Return the percentage as a fraction."""
        text = str(self.cleaned_data["carry"]).strip() or "0"
        percent = plain_decimal(text)
        if percent is None:
            raise forms.ValidationError(f"{text}: expected a number from 0 to 100.")
        return decimal_text(percent / 100)

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
        add_refusal(self, error, self._field_of)

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
        # Fields that the form of this budget leaves out have the values that the API has by
        # default.
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
        # Errors name the fields of the API, which the form calls by other names.
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
