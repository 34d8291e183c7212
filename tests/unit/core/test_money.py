"""Amounts in whole minor units: rounded half-even, and divided without a rest."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator_service.core.money import MINOR_DIGITS, divided, rounded
from tests.examples import examples


def test_minor_units_are_the_currencys():
    assert {code: MINOR_DIGITS[code] for code in ("EUR", "JPY", "KWD", "CLF")} == {
        "EUR": 2,
        "JPY": 0,
        "KWD": 3,
        "CLF": 4,
    }
    assert "EUX" not in MINOR_DIGITS
    assert len(MINOR_DIGITS) == len(set(MINOR_DIGITS)) >= 160


@pytest.mark.parametrize(
    ("amount", "digits", "nearest"),
    [
        ("4.305", 2, "4.30"),
        ("4.315", 2, "4.32"),
        ("-4.305", 2, "-4.30"),
        ("0.5", 0, "0"),
        ("1.5", 0, "2"),
        ("1.0005", 3, "1.000"),
    ],
)
def test_of_two_equally_near_the_even_one(amount, digits, nearest):
    assert str(rounded(Fraction(amount), digits)) == nearest


def test_a_hundred_by_three():
    parts = divided(Decimal("100.00"), [Fraction(1)] * 3, 2)
    assert parts == [Decimal("33.34"), Decimal("33.33"), Decimal("33.33")]


def test_the_largest_remainder_goes_first():
    parts = divided(Decimal("1.00"), [Fraction(1), Fraction(5), Fraction(0)], 2)
    assert parts == [Decimal("0.17"), Decimal("0.83"), Decimal("0.00")]


@examples(200)
@given(st.integers(0, 10**9), st.lists(st.integers(0, 50), min_size=1).filter(any))
def test_parts_add_up_and_are_within_a_unit(cents, shares):
    parts = divided(Decimal(cents).scaleb(-2), [Fraction(share) for share in shares], 2)
    assert sum(parts) == Decimal(cents).scaleb(-2)
    for part, share in zip(parts, shares, strict=True):
        assert abs(Fraction(part) - Fraction(cents * share, 100 * sum(shares))) < Fraction(1, 100)
