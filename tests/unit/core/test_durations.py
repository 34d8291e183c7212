"""Durations: calendar parts follow the wall clock of a time zone, time parts are exact."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from allocator_service.core.durations import CalendarDuration, parse_duration
from allocator_service.core.errors import Unacceptable

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P7D", CalendarDuration(0, 7, 0)),
        ("P1W", CalendarDuration(0, 7, 0)),
        ("P1M", CalendarDuration(1, 0, 0)),
        ("P1Y2M", CalendarDuration(14, 0, 0)),
        ("PT24H", CalendarDuration(0, 0, 86400)),
        ("P1DT1M1S", CalendarDuration(0, 1, 61)),
        ("P100Y", CalendarDuration(1200, 0, 0)),
    ],
)
def test_durations_are_read(text, expected):
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "duration.syntax"),
        ("P", "duration.syntax"),
        ("PT", "duration.syntax"),
        ("P1DT", "duration.syntax"),
        ("7D", "duration.syntax"),
        ("P1.5D", "duration.syntax"),
        ("-P1D", "duration.syntax"),
        ("P١D", "duration.syntax"),
        (60, "duration.syntax"),
        (None, "duration.syntax"),
        ("P0D", "duration.zero"),
        ("PT0S", "duration.zero"),
        ("P101Y", "duration.too_long"),
        ("P9999Y", "duration.too_long"),
    ],
)
def test_what_is_no_duration_is_refused(text, code):
    with pytest.raises(Unacceptable) as refused:
        parse_duration(text, pointer="/window/length")
    assert refused.value.code == code
    assert refused.value.errors[0].pointer == "/window/length"


@pytest.mark.parametrize("text", ["P31D", "P1Y", "P1000Y"])
def test_a_lower_limit_is_the_one_that_is_stated(text):
    assert parse_duration("P30D", most_days=30).days == 30
    with pytest.raises(Unacceptable) as refused:
        parse_duration(text, most_days=30)
    assert refused.value.code == "duration.too_long"
    assert refused.value.detail == "The duration must be at most 30 days."


def test_a_day_is_25_hours_when_summer_time_ends_and_24_hours_are_24_hours():
    before = datetime(2026, 10, 24, 22, 0, tzinfo=UTC)  # midnight in Berlin
    assert parse_duration("P1D").after(before, BERLIN) == datetime(2026, 10, 25, 23, tzinfo=UTC)
    assert parse_duration("PT24H").after(before, BERLIN) == datetime(2026, 10, 25, 22, tzinfo=UTC)


def test_a_month_after_the_31st_is_the_last_day_of_the_next():
    last = datetime(2027, 1, 31, 12, tzinfo=UTC)
    assert parse_duration("P1M").after(last, ZoneInfo("UTC")) == datetime(
        2027, 2, 28, 12, tzinfo=UTC
    )
