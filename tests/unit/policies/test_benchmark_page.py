"""The page of figures says what was measured last, and what was measured agrees with its peers."""

import json

import pytest

from benchmarks.measurement import Row
from benchmarks.page import MEASURED, PAGE, page_with, tables

# Whole tasks agree exactly; cone solvers stop at about 1e-6.
APART = 1e-5
# They answer with documents of their own: the benchmark counts rows before it times them.
OTHER_DOCUMENTS = ("OpenStack Placement 16", "DRF serializer, without HTTP")


def rows():
    measured = json.loads(MEASURED.read_text())
    return [row for benchmark in measured.values() for row in benchmark["rows"]]


def test_the_page_is_up_to_date():
    # Otherwise: python -m benchmarks.page
    assert PAGE.read_text() == page_with(tables(json.loads(MEASURED.read_text())))


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['name']} against {row['peer']}")
def test_a_row_follows_from_its_times(row):
    fields = {name: value for name, value in row.items() if name not in ("ratio", "met")}
    assert Row(**fields).to_document() == row
    if row["agreement"] is None:  # a dash: there is no second answer to compare with
        assert row["peer"].startswith(("ours", "none:")) or row["peer"] in OTHER_DOCUMENTS
    else:
        assert row["agreement"] <= APART
