"""Histories write values for people by the fields of the object, and user texts as they are."""

import pytest

from allocator_service.core.history import entries_done
from allocator_service.core.models import AuditEntry


def texts(object_type, **after):
    entry = AuditEntry(object_type=object_type, object_name="x", before={}, after=after)
    (named,) = entries_done([entry])
    return [each.after for each in named.done.differences]


@pytest.mark.parametrize(
    "name", ["9999-99-99T99:99:99Z", "1E+20000000", "P7D", "3E+8", "12E-3", "2026-11-24T07:50:00Z"]
)
def test_user_texts_stay_as_they_are_written(name):
    labels = {"zone": name, "racks": [name]}
    first = {"id": "1", "name": name}
    assert texts("workload", name=name, server_selector=labels, groups=[name], first=first) == [
        name,
        f"zone: {name}, racks: {name}",
        name,
        name,
    ]
    assert texts("model-that-is-gone", name=name) == [name]


def test_values_are_written_by_their_fields():
    at = "2026-11-24T07:50:12.250Z"
    assert texts(
        "workload", demand=["1.500000000000", "2E+3"], minimum_run="PT30M", created_at=at
    ) == [
        "1.5, 2000",
        "30 minutes",
        "24 November 2026, 07:50:12.25 UTC",
    ]
    assert texts("pool", window_length="P7D", window_half_life="", minimum_run="PT1H") == [
        "7 days",
        "nothing",
        "an hour",
    ]
    assert texts("membership", weight="2.000000000000", best_effort=True) == ["2", "yes"]
    # The service's group, and not the one of Django's permissions.
    assert texts("group", created_at="2026-11-24T07:50:12Z") == ["24 November 2026, 07:50:12 UTC"]


@pytest.mark.parametrize("value", ["many", "1E+20000000", "1E+99999999999999999999", "NaN", 12])
def test_amounts_that_are_not_read_stay_as_they_are_written(value):
    assert texts("workload", demand=[value]) == [str(value)]


@pytest.mark.parametrize(
    "value", ["9999-99-99T99:99:99Z", "0001-01-01T00:00:00+23:00", "2026-11-24T07:50:00", 12]
)
def test_instants_that_are_not_read_stay_as_they_are_written(value):
    assert texts("workload", created_at=value) == [str(value)]


def test_instants_within_a_second_differ():
    one, other = texts(
        "workload", created_at="2026-11-24T07:50:12.001Z", withdrawn_at="2026-11-24T07:50:12.002Z"
    )
    assert one != other
