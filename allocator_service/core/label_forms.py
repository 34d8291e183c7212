"""Labels as lines of text, for forms of the admin."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.core.exceptions import ValidationError

from allocator_service.core.labels import LabelsField, SelectorField
from allocator_service.core.line_fields import (
    ValueLinesField,
    short,
    text_before,
    unquoted,
    written,
)

_QUOTES = ' A name with “=” or a value with quotes is written in double quotes: "a=b"=c.'
_HELP = "One label on each line, as name=value, such as zone=a." + _QUOTES
_SELECTOR_HELP = (
    "Labels that a server must have, one on each line, such as zone=a. Values between commas are"
    " alternatives: gpu=h100,a100. Empty: every server."
)


class LabelLinesField(ValueLinesField[Any]):
    """Labels of a server, one on each line."""

    reads: LabelsField = LabelsField()
    help = _HELP
    example = "name=value, such as zone=a"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(help_text=self.help, **kwargs)

    def document_of(self, values: dict[str, Any]) -> dict[str, Any]:
        if len(values) > (self.reads.max_items or len(values)):
            raise ValidationError(
                f"Expected at most {self.reads.max_items} labels, got {len(values)}."
            )
        return values

    def refuse(self, name: str, value: Any) -> None:
        """Raise `ValidationError` for a name or a value that the API does not read."""
        wrong = [_sentence("name", name, detail) for detail in self.reads.name_mistakes(name)]
        wrong += [_sentence("value of", name, each) for each in self.reads.value_mistakes(value)]
        if wrong:
            raise ValidationError(wrong)

    def value_of(self, text: str) -> Any:
        return unquoted(text)

    def value_text(self, value: Any) -> str:
        return written(value, "")


class SelectorLinesField(LabelLinesField):
    """Labels that a server must have, with alternatives between commas."""

    reads = SelectorField()
    help = _SELECTOR_HELP

    def value_of(self, text: str) -> Any:
        values = list(_values(text))
        if len(values) == 1:
            return unquoted(values[0])
        if not all(values):
            raise ValidationError(f"expected a value on each side of a comma, got “{short(text)}”.")
        return [unquoted(each) for each in values]

    def value_text(self, value: Any) -> str:
        values: Sequence[str] = value if isinstance(value, list) else [value]
        return ",".join(written(each, ",") if each or len(values) == 1 else '""' for each in values)


def _values(text: str) -> Iterator[str]:
    """Return the values between commas, with their quotes."""
    end = -1
    while end < len(text):
        value, end = text_before(",", text, end + 1)
        yield value


def _sentence(what: str, name: str, detail: str) -> str:
    return f"the {what} “{short(name)}” is refused. {detail}"
