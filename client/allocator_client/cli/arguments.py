"""Parameter types and options that several commands share."""

from collections.abc import Sequence
from typing import Any

import click


class Pairs(click.ParamType[dict[str, str]]):
    """Parameter type of names with values, such as `cpu=1,memory=4Gi`."""

    name = "pairs"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        pairs: dict[str, str] = {}
        for text in value.split(","):
            name, equals, amount = (part.strip() for part in text.partition("="))
            if not (name and equals and amount):
                self.fail(f"{value!r} is not written like cpu=1,memory=4Gi", param, ctx)
            if name in pairs:
                self.fail(f"{value!r} names {name} twice", param, ctx)
            pairs[name] = amount
        return pairs


PAIRS = Pairs()
yes_option = click.option("--yes", is_flag=True, help="Change it without a question.")


def selector_of(pairs: Sequence[dict[str, str]]) -> dict[str, str | list[str]]:
    """Return the server selector of labels with values."""
    selector: dict[str, str | list[str]] = {}
    for label, value in (pair for each in pairs for pair in each.items()):
        selector[label] = [*selector.get(label, []), value]
    return selector


def changed_fields(text: str) -> tuple[dict[str, int | None], dict[str, float | str]]:
    """Parse the changed tasks and priority, and the changed demand by resource."""
    numbers: dict[str, int | None] = {}
    pairs = PAIRS.convert(text, None, None)
    for name in ("tasks", "priority"):
        if name in pairs:
            value = pairs.pop(name)
            if value == "none" and name == "tasks":
                numbers[name] = None
                continue
            try:
                numbers[name] = int(value)
            except ValueError as error:
                raise click.UsageError(f"{name}={value}: a whole number is right.") from error
    return numbers, {**pairs}
