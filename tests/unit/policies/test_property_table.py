"""The table of properties in the documentation says what the checks say now."""

from benchmarks.property_table import PAGE, page_with, table
from tests.examples import long


@long
def test_the_page_is_up_to_date():
    # Otherwise: python -m benchmarks.property_table
    assert PAGE.read_text() == page_with(table())
