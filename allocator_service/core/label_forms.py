"""Labels as lines of text, for forms of the admin."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from allocator_service.core.labels import LabelsField, SelectorField

_BLANKS = re.compile(r"\s*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SHOWN = 40  # characters of a name in an error
_QUOTES = ' A name with “=” or a value with quotes is written in double quotes: "a=b"=c.'
_HELP = "One label on each line, as name=value, such as zone=a." + _QUOTES
_SELECTOR_HELP = (
    "Labels that a server must have, one on each line, such as zone=a. Values between commas are"
    " alternatives: gpu=h100,a100. Empty: every server."
)


class LabelLinesField(forms.CharField):
    """Labels of a server, one on each line."""

    reads: LabelsField = LabelsField()
    help = _HELP

    def __init__(self, **kwargs: Any) -> None:
        widget = forms.Textarea(attrs={"rows": 4, "cols": 60, "spellcheck": "false"})
        super().__init__(required=False, help_text=self.help, widget=widget, **kwargs)

    def prepare_value(self, value: Any) -> Any:
        return self.text_of(value) if isinstance(value, Mapping) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return self.text_of(initial or {}) != self.text_of(self.to_python(data))
        except ValidationError:
            return True

    def to_python(self, value: Any) -> dict[str, Any]:  # type: ignore[override]
        text = super().to_python(value) or ""
        # Other characters that end lines are refused as parts of a name or a value.
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        labels: dict[str, Any] = {}
        errors = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                name, label = self._read_line(line)
            except ValidationError as error:
                errors += [f"Line {number}: {message}" for message in error.messages]
                continue
            if name in labels:
                errors.append(f"Line {number}: the name “{_short(name)}” is used twice.")
            labels[name] = label
        if errors:
            raise ValidationError(errors)
        if len(labels) > (self.reads.max_items or len(labels)):
            raise ValidationError(
                f"Expected at most {self.reads.max_items} labels, got {len(labels)}."
            )
        return labels

    def text_of(self, labels: Mapping[str, Any]) -> str:
        """Return labels as `to_python` reads them."""
        return "\n".join(
            f"{_written(name, '=')}={self._value_text(value)}" for name, value in labels.items()
        )

    def _read_line(self, line: str) -> tuple[str, Any]:
        before, end = _before(line, "=", 0)
        if end == len(line):
            raise ValidationError(f"expected name=value, such as zone=a, got “{_short(line)}”.")
        name, value = _unquoted(before), self._value_of(line[end + 1 :].strip())
        if not name:
            raise ValidationError("the name before “=” is empty. Expected name=value.")
        _refuse_unread(self.reads, name, value)
        return name, value

    def _value_of(self, text: str) -> Any:
        return _unquoted(text)

    def _value_text(self, value: Any) -> str:
        return _written(value, "")


class SelectorLinesField(LabelLinesField):
    """Labels that a server must have, with alternatives between commas."""

    reads = SelectorField()
    help = _SELECTOR_HELP

    def _value_of(self, text: str) -> Any:
        values = list(_values(text))
        if len(values) == 1:
            return _unquoted(values[0])
        if not all(values):
            raise ValidationError(
                f"expected a value on each side of a comma, got “{_short(text)}”."
            )
        return [_unquoted(each) for each in values]

    def _value_text(self, value: Any) -> str:
        values: Sequence[str] = value if isinstance(value, list) else [value]
        return ",".join(
            _written(each, ",") if each or len(values) == 1 else '""' for each in values
        )


def _values(text: str) -> Iterator[str]:
    """Return the values between commas, with their quotes."""
    end = -1
    while end < len(text):
        value, end = _before(text, ",", end + 1)
        yield value


def _before(text: str, separator: str, start: int) -> tuple[str, int]:
    """Return the text before a separator outside of quotes, with the place where it ends."""
    if quoted := _QUOTED.match(text, _BLANKS.match(text, start).end()):  # type: ignore[union-attr]
        end = _BLANKS.match(text, quoted.end()).end()  # type: ignore[union-attr]
        if end == len(text) or text[end] == separator:
            return quoted[0], end
    end = text.find(separator, start)
    end = len(text) if end < 0 else end
    return text[start:end].strip(), end


def _refuse_unread(reads: LabelsField, name: str, value: Any) -> None:
    """Raise `ValidationError` for a name or a value that the API does not read."""
    wrong = [_sentence("name", name, detail) for detail in reads.name_mistakes(name)]
    wrong += [_sentence("value of", name, detail) for detail in reads.value_mistakes(value)]
    if wrong:
        raise ValidationError(wrong)


def _sentence(what: str, name: str, detail: str) -> str:
    return f"the {what} “{_short(name)}” is refused. {detail}"


def _unquoted(text: str) -> str:
    """Return a name or a value without its quotes."""
    if not text.startswith('"'):
        return text
    try:
        read = str(json.loads(text, strict=False))
        read.encode()  # escapes can write halves of characters
    except ValueError as error:
        raise ValidationError(
            f'expected a text between double quotes, such as "a=b", got “{_short(text)}”.'
        ) from error
    return read


def _written(text: str, separator: str) -> str:
    """Return a name or a value, in quotes where it would be read as something else."""
    if text.strip() == text and not text.startswith('"') and not (separator and separator in text):
        return text
    return json.dumps(text, ensure_ascii=False)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
