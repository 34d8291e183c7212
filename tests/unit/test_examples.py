"""How many examples a property is asked of."""

import pytest

from tests.examples import THOROUGH, UNSHRUNK, examples


@pytest.mark.parametrize(("count", "asked"), [(2000, 250), (500, 62), (60, 25), (25, 25), (20, 20)])
def test_the_gate_asks_an_eighth_and_the_weekly_run_all(count, asked, monkeypatch):
    monkeypatch.delenv(THOROUGH, raising=False)
    monkeypatch.delenv(UNSHRUNK, raising=False)
    assert examples(count).max_examples == asked
    monkeypatch.setenv(THOROUGH, "1")
    assert examples(count).max_examples == count


def test_a_mutant_is_looked_for_with_a_quarter(monkeypatch):
    monkeypatch.delenv(THOROUGH, raising=False)
    monkeypatch.setenv(UNSHRUNK, "1")
    assert examples(500).max_examples == 125
