"""The mutants that `./dev mutants` makes: that they can be made, and how one is told from another."""

import os
import sys
from pathlib import Path

import pytest

from devtools import mutants
from devtools.mutants import Bench, Mutant
from launcher.console import StepFailed
from launcher.folders import PROJECT

MODULE = "def least(a, b):\n    return a if a < b else b\n"
TESTS = "from module import least\n\n\ndef test_the_less_is_found():\n    assert least(1, 2) == 1\n"
FOUND = Mutant("module/greatest", Path("module.py"), "a < b", "a > b", ("test_module.py",))
UNSEEN = Mutant("module/or-equal", Path("module.py"), "a < b", "a <= b", ("test_module.py",))

KNOWN = mutants.read(PROJECT / mutants.LISTS)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "test_module.py").write_text(TESTS)
    return tmp_path


@pytest.fixture
def bench(project):
    """With pytest alone, which is quick to start."""
    command = [sys.executable, "-m", "pytest", "-c", os.devnull]
    return Bench(project, command, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})


@pytest.mark.parametrize("mutant", KNOWN, ids=lambda mutant: mutant.name)
def test_every_mutant_can_be_made(mutant):
    assert mutant.misplaced(PROJECT) == ""
    assert mutant.new != mutant.old


def test_mutants_have_names_of_their_own():
    names = [mutant.name for mutant in KNOWN]
    assert len(names) == len(set(names))


def test_a_mutant_is_noticed_or_survives_and_leaves_no_trace(project, bench):
    before = (project / "module.py").stat().st_mtime_ns
    assert bench.fails(["test_module.py"]) == ""
    assert bench.noticed_by(FOUND) == "test_module.py::test_the_less_is_found"
    assert bench.noticed_by(UNSEEN) == ""
    assert (project / "module.py").read_text() == MODULE
    assert (project / "module.py").stat().st_mtime_ns == before


def test_survivors_are_named(bench, capsys):
    assert mutants._run(bench, [FOUND, UNSEEN]) == ["module/or-equal"]
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith(
        "noticed  module/greatest by test_module.py::test_the_less_is_found ("
    )
    assert told[1].startswith("SURVIVED module/or-equal (")


def test_a_mutant_that_cannot_be_imported_is_not_taken_for_noticed(bench):
    broken = Mutant("module/broken", Path("module.py"), "a < b", "a <", ("test_module.py",))
    with pytest.raises(StepFailed, match=r"run test_module\.py"):
        bench.noticed_by(broken)


def test_nothing_is_tried_while_the_tests_fail_without_a_mutant(project, bench):
    (project / "test_module.py").write_text(TESTS.replace("== 1", "== 2"))
    with pytest.raises(StepFailed, match="without a mutant"):
        mutants._run(bench, [FOUND])


@pytest.mark.parametrize(
    ("file", "old", "tests", "problem"),
    [
        ("module.py", "a <= b", ("test_module.py",), "stands 0 times in module.py, not once"),
        ("module.py", "b", ("test_module.py",), "stands 3 times in module.py, not once"),
        ("modules.py", "a < b", ("test_module.py",), "there is no modules.py"),
        ("module.py", "a < b", ("test_modules.py",), "there is no test_modules.py"),
    ],
)
def test_a_mutant_whose_place_has_changed_is_told(project, file, old, tests, problem):
    assert problem in Mutant("module/moved", Path(file), old, "", tests).misplaced(project)


def test_a_list_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "auth.toml").write_text('file = "api/auth.py"\ntests = []\n[[mutant]]\nname = "a"')
    with pytest.raises(StepFailed, match=r"read .*auth\.toml"):
        mutants.read(tmp_path)


def test_a_name_that_means_nothing_is_refused():
    with pytest.raises(StepFailed, match="find the mutant autk"):
        mutants.mutants(["autk"])


@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_help_states_the_usage_and_the_lists(asked, capsys):
    assert mutants.mutants([asked]) == 0
    shown = capsys.readouterr().out
    assert "Usage: ./dev mutants [LIST | LIST/NAME ...]" in shown
    assert "auth" in shown
