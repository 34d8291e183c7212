"""Fields for labels of servers and selectors of workloads, the same in every interface."""

from typing import Any

from policies.fields import Field, MapField, Mistakes, OneOrMoreField, TextField

LABEL_LENGTH = 253
MOST_LABELS, MOST_VALUES = 64, 100


class LabelsField(MapField):
    """Labels of a server, texts keyed by texts."""

    type_name = "an object of texts"

    def __init__(self, value: Field | None = None, **options: Any) -> None:
        super().__init__(
            value or TextField(max_length=LABEL_LENGTH, blank=True),
            names=TextField(max_length=LABEL_LENGTH),
            max_items=MOST_LABELS,
            code="labels.count",
            **options,
        )

    def name_mistakes(self, name: str) -> list[str]:
        """Return the mistakes in the name of a label."""
        return _mistakes(TextField(max_length=LABEL_LENGTH), name)

    def value_mistakes(self, value: Any) -> list[str]:
        """Return the mistakes in the value of a label."""
        return _mistakes(self.values, value)


def line_mistakes(text: str, max_length: int) -> list[str]:
    """Return the mistakes in a line of text, read as a label's value is."""
    return _mistakes(TextField(max_length=max_length), text)


def _mistakes(field: Field, value: Any) -> list[str]:
    try:
        field.read(value)
    except Mistakes as wrong:
        return [each.detail for each in wrong.found]
    return []


class SelectorField(LabelsField):
    """A selector with the value or values of each label, one of which a server must have."""

    type_name = 'an object such as {"zone": "a"} or {"zone": ["a", "b"]}'

    def __init__(self, **options: Any) -> None:
        text = TextField(max_length=LABEL_LENGTH, blank=True)
        super().__init__(
            OneOrMoreField(text, max_items=MOST_VALUES, code="selector.count"), **options
        )
