"""Order of names for people."""

from django.db.models import F, Func, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Length


def natural_order(path: str) -> list[Combinable]:
    """Return the expressions by which names with numbers are in the order of the numbers.

    For example node-2 goes before node-10. Names that differ in more than the digits are in the order of
    their other characters.
    """
    letters = Func(F(path), Value("[0-9]+"), Value(""), Value("g"), function="regexp_replace")
    return [letters, Length(path), F(path)]
