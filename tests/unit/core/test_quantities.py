"""Quantities are exact: what a client writes is what is stored, or an error says why not."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import (
    Resource,
    decimal_text,
    json_number,
    parse_quantity,
    vector_from,
    vector_to_document,
)

LAB = [Resource("cpu", "core"), Resource("memory", "GiB")]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0, "", "0"),
        (4, "core", "4"),
        (0.1, "core", "0.1"),
        (Decimal("0.1234567890125"), "", "0.123456789012"),
        ("0.25", "core", "0.25"),
        (".5", "core", "0.5"),
        ("250m", "core", "0.25"),
        ("2k", "", "2000"),
        ("1e3", "", "1000"),
        ("500Mi", "GiB", "0.48828125"),
        ("1Gi", "byte", "1073741824"),
        ("1Gi", "GB", "1.073741824"),
        ("16Gi", "GiB", "16"),
        ("999999999999.999999999999", "", "999999999999.999999999999"),
        (-0.0, "", "0"),
    ],
)
def test_a_quantity_is_converted_exactly(value, unit, expected):
    assert parse_quantity(value, unit) == Decimal(expected)


@pytest.mark.parametrize(
    ("value", "unit", "code"),
    [
        (-1, "", "quantity.negative"),
        ("-0.5", "", "quantity.negative"),
        (float("nan"), "", "quantity.not_finite"),
        (float("inf"), "", "quantity.not_finite"),
        (Decimal("NaN"), "", "quantity.not_finite"),
        (10**12, "", "quantity.too_large"),
        (10**400, "", "quantity.too_large"),
        ("1T", "", "quantity.too_large"),
        (True, "", "quantity.type"),
        (None, "", "quantity.type"),
        ([1], "", "quantity.type"),
        ("", "", "quantity.syntax"),
        ("1_000", "", "quantity.syntax"),
        ("١٢", "", "quantity.syntax"),
        (" 1", "", "quantity.syntax"),
        ("1 Gi", "", "quantity.syntax"),
        ("NaN", "", "quantity.syntax"),
        ("0x10", "", "quantity.syntax"),
        ("1e9999", "", "quantity.syntax"),
        ("9" * 50, "", "quantity.syntax"),
        ("1n", "GiB", "quantity.precision"),
        ("0.1234567890123", "", "quantity.precision"),
        ("5Gi", "slots", "quantity.unit"),
    ],
)
def test_what_is_no_quantity_is_refused_by_name(value, unit, code):
    with pytest.raises(Unacceptable) as refused:
        parse_quantity(value, unit, pointer="/capacity/cpu")
    assert refused.value.code == code
    assert refused.value.errors[0].pointer == "/capacity/cpu"


def test_a_vector_has_the_pools_order_and_names_every_entry_that_is_wrong():
    assert vector_from({"memory": "512Mi", "cpu": 2}, LAB, pointer="") == [
        Decimal(2),
        Decimal("0.5"),
    ]
    with pytest.raises(Unacceptable) as refused:
        vector_from({"gpu": 1, "cpu": -1, "a/b": 1}, LAB, pointer="/capacity")
    assert [(error.pointer, error.code) for error in refused.value.errors] == [
        ("/capacity/gpu", "resource.unknown"),
        ("/capacity/cpu", "quantity.negative"),
        ("/capacity/a~1b", "resource.unknown"),
    ]


@pytest.mark.parametrize("value", [None, 3, "cpu", [1, 2]])
def test_quantities_that_are_no_object_are_refused(value):
    with pytest.raises(Unacceptable, match="object of quantities by resource name"):
        vector_from(value, LAB, pointer="/demand")


def test_a_vector_shorter_than_the_pool_reads_as_zeros():
    assert vector_to_document([Decimal("1.500000000000")], LAB) == {"cpu": 1.5, "memory": 0}


@given(st.decimals(min_value=0, max_value=Decimal("999999999999"), places=12))
def test_every_quantity_survives_its_text(amount):
    assert parse_quantity(decimal_text(amount)) == amount


@given(st.integers(min_value=0, max_value=10**12 - 1))
def test_whole_numbers_stay_whole(amount):
    number = json_number(parse_quantity(amount))
    assert isinstance(number, int)
    assert number == amount
