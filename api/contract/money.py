"""Fields of money, exact decimals that are read from texts or numbers and written as texts."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from allocator_service.billing.rating.lines import minor_digits
from allocator_service.billing.statements.documents import money_text
from allocator_service.core.money import MINOR_DIGITS
from allocator_service.core.quantities import decimal_text
from api.contract.fields import SchemaField
from policies.fields import FRACTIONAL_DIGITS, LIMIT, Field, PatternField, Schema, mistake

MAX_TEXT = 60
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?", re.ASCII)
DECIMAL: Schema = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}


class PriceField(Field):
    """A decimal of at least 0, with at most 12 digits after the point.

    `what` names it in errors.
    """

    type_name = 'a decimal, as a text such as "0.01" or a number'

    def __init__(self, *, what: str = "A price", **options: Any) -> None:
        super().__init__(**options)
        self.what = what

    def read(self, value: Any) -> Decimal:
        # In Python true is an int, and would be a price of 1.
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
            raise self.wrong_type()
        # By the shortest text of a float: its binary value has digits that the caller did not send.
        text = value if isinstance(value, str) else f"{Decimal(str(value)):f}"
        if len(text) > MAX_TEXT or not _DECIMAL.fullmatch(text):
            raise mistake("price.syntax", f'Expected {self.type_name}, not "{text[:40]}".')
        price = Decimal(text)
        if price < 0:
            raise mistake("price.negative", f"{self.what} is at least 0; {text[:40]} is negative.")
        if price >= LIMIT:
            raise mistake("price.too_large", f"{self.what} is below {LIMIT:e}.")
        if price != round(price, FRACTIONAL_DIGITS):
            raise mistake(
                "price.precision",
                f"{self.what} has at most {FRACTIONAL_DIGITS} digits after the point.",
            )
        # -0 is not below 0, and would be written with its sign.
        return abs(price)

    def write(self, value: Any, context: Any) -> str | None:
        return None if value is None else decimal_text(value)

    def describe(self) -> Schema:
        text = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]{1,12})?$"}
        return {"oneOf": [text, {"type": "number", "minimum": 0}]}


class CurrencyField(PatternField):
    """A currency of ISO 4217."""

    def __init__(self, **options: Any) -> None:
        super().__init__(pattern="^[A-Z]{3}$", code="currency.syntax", **options)

    def read(self, value: Any) -> Any:
        code = super().read(value)
        if code not in MINOR_DIGITS:
            raise mistake(
                "currency.unknown", f'"{code}" is no currency of ISO 4217: write it as EUR.'
            )
        return code


class DecimalField(SchemaField):
    """A decimal in an answer, as a text. In requests it is a `PriceField`."""

    def __init__(self, *, allow_null: bool = False, **options: Any) -> None:
        schema = {**DECIMAL, "type": ["string", "null"]} if allow_null else DECIMAL
        super().__init__(schema=schema, **options)
        self._is_nullable = allow_null

    def in_requests(self) -> Field:
        options = self.writable if isinstance(self.writable, Mapping) else {}
        return PriceField(source=self.source, allow_null=self._is_nullable, **options)

    def write(self, value: Any, context: Any) -> Any:
        return decimal_text(value) if isinstance(value, Decimal) else value


class MoneyField(DecimalField):
    """An amount with all digits of the pool's currency."""

    def write(self, value: Any, context: Any) -> Any:
        return money_text(value, minor_digits(context.pool))
