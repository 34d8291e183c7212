"""The tutorial's commands print what the page shows, and begin with README's session."""

import doctest
import re

import pytest

from launcher.folders import PROJECT
from tests.guides import run_steps, session
from tests.live.conftest import launched

TUTORIAL = PROJECT / "docs" / "tutorial.md"
_LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def steps(tmp_path_factory, worker_id):
    with launched("kept", worker_id, tmp_path_factory.mktemp("tutorial")) as service:
        yield run_steps(TUTORIAL, service=service, folder=tmp_path_factory.mktemp("newcomer"))


def test_each_step_prints_what_the_page_shows(steps):
    shown = re.findall(r"^```text\n(.*?)^```", TUTORIAL.read_text(), re.M | re.S)
    printed = [text for text in steps if text.strip()]
    assert len(shown) == len(printed) == 13
    for expected, got in zip(shown, printed, strict=True):
        assert doctest.OutputChecker().check_output(expected, got, _LIKE), got


def test_the_first_steps_are_the_session_of_the_readme():
    def lines(page):
        return [line for line in session(page).splitlines() if line.strip()]

    readme = lines(PROJECT / "README.md")
    assert readme
    assert lines(TUTORIAL)[: len(readme)] == readme
