"""How many examples a property is asked of, and when long tests run."""

import subprocess
import sys

import pytest

from tests.examples import UNSHRUNK, examples, numbers
from tests.services import THOROUGH


@pytest.mark.parametrize(("count", "asked"), [(2000, 125), (500, 31), (60, 16), (16, 16), (10, 10)])
def test_the_gate_asks_a_sixteenth_and_the_weekly_run_all(count, asked, monkeypatch):
    monkeypatch.delenv(THOROUGH, raising=False)
    monkeypatch.delenv(UNSHRUNK, raising=False)
    assert examples(count).max_examples == asked
    monkeypatch.setenv(THOROUGH, "1")
    assert examples(count).max_examples == count


def test_a_mutant_is_looked_for_with_a_quarter(monkeypatch):
    monkeypatch.delenv(THOROUGH, raising=False)
    monkeypatch.setenv(UNSHRUNK, "1")
    assert examples(500).max_examples == 125
    assert examples(60).max_examples == 25


def test_loops_take_as_many_numbers_as_properties_have_examples(monkeypatch):
    monkeypatch.delenv(THOROUGH, raising=False)
    monkeypatch.delenv(UNSHRUNK, raising=False)
    assert list(numbers(64)) == list(range(0, 64, 4))
    assert list(numbers(5)) == [0, 1, 2, 3, 4]
    monkeypatch.setenv(THOROUGH, "1")
    assert list(numbers(64)) == list(range(64))


def test_the_plugin_that_reads_thorough_does_not_decide_before_about_long_tests():
    """`long` is evaluated when tests.examples is imported, which must be after --thorough is read."""
    code = "import sys, tests.services; sys.exit('tests.examples' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
