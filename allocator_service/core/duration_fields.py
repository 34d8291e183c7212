"""Form fields of durations, a number and a unit each."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from allocator_service.core.durations import MAX_YEARS, parse_duration
from allocator_service.core.errors import DomainError

# Days and longer are units of the calendar, hours and shorter are exact: each unit has its own text.
_TEXTS: Mapping[str, tuple[str, str, str]] = {
    "seconds": ("PT", "S", "second"),
    "minutes": ("PT", "M", "minute"),
    "hours": ("PT", "H", "hour"),
    "days": ("P", "D", "day"),
    "weeks": ("P", "W", "week"),
    "months": ("P", "M", "month"),
    "years": ("P", "Y", "year"),
}
_SECONDS: dict[str, int] = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
ISO = "iso"
_UNITS = [*((unit, unit) for unit in _TEXTS), (ISO, "as ISO 8601, such as P1DT12H")]


def duration_parts(text: str) -> tuple[str, str]:
    """Return the number and the unit of a duration, or its text and `iso` for several units."""
    for unit, (head, tail, _) in _TEXTS.items():
        number = text.removeprefix(head).removesuffix(tail)
        # A text that would be written in another way, such as P07D, stays as it is stored.
        if _NUMBER.fullmatch(number) and f"{head}{int(number)}{tail}" == text:
            return number, unit
    return text, ISO


def duration_text(text: str) -> str:
    """Return the text of a duration, such as "7 days" for P7D and "a month" for P1M.

    A duration of several units, such as P1DT12H, is returned unchanged.
    """
    number, unit = duration_parts(text)
    if unit == ISO:
        return text
    if number == "1":
        return f"{'an' if unit == 'hours' else 'a'} {_TEXTS[unit][2]}"
    return f"{int(number):,} {unit}"


def seconds_text(value: int) -> str:
    """Return the text of a number of seconds, such as "15 minutes" for 900 and "an hour" for 3,600."""
    number, unit = _seconds_parts(value)
    head, tail, _ = _TEXTS[unit]
    return duration_text(f"{head}{number}{tail}")


class DurationWidget(forms.MultiWidget):
    """Boxes for a number and a unit."""

    part_names: ClassVar[Sequence[str]] = ("number", "unit")

    def __init__(self, units: Sequence[tuple[str, str]], default: str) -> None:
        self._default = default
        number = forms.TextInput(attrs={"size": 9, "autocomplete": "off"})
        super().__init__([number, forms.Select(choices=units)])

    def decompress(self, value: Any) -> list[str]:
        return list(duration_parts(value)) if value else ["", self._default]


class DurationField(forms.MultiValueField):
    """Duration in ISO 8601 that is entered as a number and a unit, of `most_days` at most."""

    def __init__(
        self,
        *,
        units: Sequence[tuple[str, str]] = _UNITS,
        default: str = "days",
        most_days: int | None = None,
        **kwargs: Any,
    ) -> None:
        self._most_days = most_days
        fields = (forms.CharField(max_length=40), forms.ChoiceField(choices=units))
        super().__init__(fields, widget=DurationWidget(units, default), **kwargs)

    def compress(self, data_list: Sequence[str]) -> Any:
        number, unit = (*data_list, "", "")[:2]
        if not number:
            return ""
        if unit == ISO:
            return _parsed(number, self._most_days)
        if not _NUMBER.fullmatch(number) or not int(number):
            raise ValidationError(
                f"Expected a whole number greater than 0 of the unit, such as 7, got “{number}”."
            )
        head, tail, _ = _TEXTS[unit]
        # Texts of durations have fewer digits for longer units.
        most = f"{MAX_YEARS} years" if self._most_days is None else f"{self._most_days} days"
        syntax = f"A duration is at most {most}."
        return _parsed(f"{head}{int(number)}{tail}", self._most_days, syntax=syntax)

    def text_of(self, value: Any) -> str:
        """Return a duration for people, such as 7 days."""
        number, unit = self.widget.decompress(value)
        if not number or unit == ISO:
            return str(number)
        return f"{int(number):,} {_TEXTS[unit][2] if number == '1' else unit}"


class SecondsField(DurationField):
    """Number of seconds that is entered as a number and a unit."""

    def __init__(self, **kwargs: Any) -> None:
        units = [(unit, unit) for unit in reversed(_SECONDS)]
        super().__init__(units=units, default="seconds", **kwargs)
        self.widget.decompress = _seconds_parts

    def compress(self, data_list: Sequence[str]) -> Any:
        text = super().compress(data_list)
        if not text:
            return None
        number, unit = duration_parts(text)
        return int(number) * _SECONDS[unit]


def _seconds_parts(value: Any) -> list[str]:
    """Return a number of seconds in the longest unit that it is a multiple of."""
    if value in (None, ""):
        return ["", "seconds"]
    unit = next(name for name, seconds in _SECONDS.items() if value % seconds == 0)
    return [str(int(value) // _SECONDS[unit]), unit]


def _parsed(text: str, most_days: int | None, syntax: str = "") -> str:
    """Return a text that is a duration. Raises `ValidationError`, with `syntax` for one that is not."""
    try:
        parse_duration(text, most_days=most_days)
    except DomainError as error:
        sentence = syntax if error.code == "duration.syntax" else ""
        raise ValidationError(sentence or error.detail) from error
    return text
