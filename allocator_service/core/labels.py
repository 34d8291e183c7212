"""How labels of servers and selectors of workloads are read and checked, in every interface."""

from typing import Any

from policies.fields import Field, MapField, OneOrMoreField, TextField

LABEL_LENGTH = 253
MOST_LABELS, MOST_VALUES = 64, 100


class LabelsField(MapField):
    """Labels of a server: texts keyed by texts."""

    type_name = "an object of texts"

    def __init__(self, value: Field | None = None, **options: Any) -> None:
        super().__init__(
            value or TextField(max_length=LABEL_LENGTH, blank=True),
            names=TextField(max_length=LABEL_LENGTH),
            max_items=MOST_LABELS,
            code="labels.count",
            **options,
        )


class SelectorField(LabelsField):
    """For each label the value, or the values, one of which a server must have."""

    type_name = 'an object such as {"zone": "a"} or {"zone": ["a", "b"]}'

    def __init__(self, **options: Any) -> None:
        text = TextField(max_length=LABEL_LENGTH, blank=True)
        super().__init__(
            OneOrMoreField(text, max_items=MOST_VALUES, code="selector.count"), **options
        )
