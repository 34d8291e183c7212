"""Quantities, money and instants as people read them."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from allocator_service.core.display import (
    counted,
    exact_resource_text,
    exact_text,
    instant_text,
    list_instant_text,
    local_time,
    money_text,
    month_text,
    number_text,
    percent_text,
    quantity_text,
    resource_text,
    short_day,
)
from allocator_service.core.quantities import Resource
from allocator_service.core.templatetags.shown import number_within, part_of, setting_of
from policies import policies_available
from policies.explaining.numbers import amount

AT = datetime(2026, 11, 24, 7, 50, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "unit", "value", "text"),
    [
        ("gpu", "GPU", "4", "4 GPUs"),
        ("gpu", "GPU", "1", "1 GPU"),
        ("gpu", "", "4", "4 gpu"),
        ("cpu", "core", "1234", "1,234 cores"),
        ("cpu", "cores", "1", "1 core"),
        ("cpu", "core", "0.2", "0.2 cores"),
        ("memory", "GiB", "138.2345", "138.2 GiB memory"),
        ("a100", "GPU", "2", "2 a100 GPUs"),
        ("a100", "GPU", "1", "1 a100 GPU"),
        ("licenses", "license", "3", "3 licenses"),
        ("clock", "MHz", "12583", "12,583 MHz clock"),
    ],
)
def test_a_unit_is_stated_once_and_in_its_number(name, unit, value, text):
    assert resource_text(Decimal(value), Resource(name, unit)) == text


def test_a_column_has_short_instants_and_exact_numbers():
    assert list_instant_text(AT).replace("\N{NO-BREAK SPACE}", " ") == "24 Nov 2026, 07:50:05 UTC"
    assert exact_text(Decimal("1234567.8910"), "core") == "1,234,567.891 cores"


@pytest.mark.parametrize(
    ("at", "zone", "text"),
    [
        (datetime.max.replace(tzinfo=UTC), "Europe/Berlin", "31 December 9999, 23:59 UTC"),
        (datetime.max.replace(tzinfo=UTC), "America/New_York", "31 December 9999, 18:59 EST"),
        (datetime.min.replace(tzinfo=UTC), "America/New_York", "1 January 1, 00:00 UTC"),
        (datetime.min.replace(tzinfo=UTC), "UTC", "1 January 1, 00:00 UTC"),
    ],
)
def test_an_instant_at_the_end_of_the_calendar_has_the_clocks_that_it_has(at, zone, text):
    assert instant_text(at, zone) == text
    assert short_day(local_time(at, zone)) in text.replace("December", "Dec").replace(
        "January", "Jan"
    )


def test_numbers_have_four_digits_and_groups_of_three():
    values = ("9.999999999999998", "12345.6", "1234.5678", "0.71428", "0", "0.00001", "-0.00001")
    shown = [number_text(Decimal(value)) for value in values]
    assert shown == ["10", "12,346", "1,235", "0.7143", "0", "less than 0.001", "nearly 0"]
    assert quantity_text(Decimal("24.35"), "core") == "24.35 cores"
    shown = [percent_text(each).split("\N{NO-BREAK SPACE}") for each in (5 / 7, 1.0, 0.99996)]
    assert shown == [["71.43", "%"], ["100", "%"], ["less than 100", "%"]]
    assert (counted(1, "pool"), counted(2000, "pool")) == ("1 pool", "2,000 pools")


def test_a_setting_has_all_digits_and_its_part_is_not_rounded_to_more():
    gpus, amount = Resource("gpu", "GPU"), Decimal("8.9999999999")
    assert exact_resource_text(amount, gpus) == "8.9999999999 GPUs"
    assert ">8.9999999999 GPUs<" in setting_of(amount, gpus)
    assert ">8.9999999999 GPUs<" in part_of(8.9999999999, amount, gpus)
    assert ">8.9999999999<" in number_within(8.9999999999, amount)
    assert ">8.123 GPUs<" in part_of(8.12345, amount, gpus)
    assert (">9 GPUs<" in part_of(9.0, 9.0, gpus), ">0<" in number_within(0.0, 0.0)) == (True, True)
    assert ">1,235<" in number_within(1234.56, 1300.0)
    assert ">1,234.56<" in number_within(1234.56, 1234.56)


def test_money_keeps_all_of_its_digits():
    assert money_text("1234567.50", "EUR") == "1,234,567.50 EUR"
    assert money_text(Decimal("-0.010")) == "-0.010"


def test_instants_name_the_month_and_the_zone():
    assert instant_text(AT) == "24 November 2026, 07:50 UTC"
    assert instant_text(AT, "Europe/Berlin", "second") == "24 November 2026, 08:50:05 CET"
    assert instant_text(AT, precision="day") == "24 November 2026"
    assert instant_text(AT, precision="time") == "07:50:05 UTC"
    assert month_text("2026-10") == "October 2026"


def test_every_policy_has_a_name_for_people_of_its_own():
    titles = [policy.title for policy in policies_available()]
    assert all(titles)
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("gpu", "GPU"), ("gpu", ""), ("cpu", "core"), ("cpu", "cores"), ("memory", "GiB"),
        ("a100", "GPU"), ("cpu", "vCPU"), ("GPUs", "GPU"), ("power", "W"), ("glass", "glass"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [0, 1, 1.5, 2, 1234])
def test_explanations_word_amounts_as_pages_do(value, name, unit):
    assert amount(value, name, unit) == resource_text(Decimal(value), Resource(name, unit))
