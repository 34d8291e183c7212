"""How many examples a property is asked of."""

import pytest

from tests.examples import THOROUGH, examples


@pytest.mark.parametrize(
    ("count", "asked"), [(2000, 500), (500, 125), (60, 25), (25, 25), (20, 20)]
)
def test_the_gate_asks_a_quarter_and_the_weekly_run_all(count, asked, monkeypatch):
    monkeypatch.delenv(THOROUGH, raising=False)
    assert examples(count).max_examples == asked
    monkeypatch.setenv(THOROUGH, "1")
    assert examples(count).max_examples == count
