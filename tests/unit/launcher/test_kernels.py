"""Kernels compile once per change of the policies: the first decision's at once, the rest after."""

import subprocess
import sys
from pathlib import Path

import pytest

from launcher.console import StepFailed
from launcher.kernels import Kernels

# Notes what it is asked for; a policy named in `slow` never gets done.
POLICIES = """
import pathlib, time
def warm(*names):
    here = pathlib.Path(__file__).parent
    with (here / "asked").open("a") as asked:
        asked.write(",".join(names) + "\\n")
    if (here / "slow").exists():
        time.sleep(60)
"""


SIMULATIONS = """
import time
def warm_simulations():
    from policies import warm
    warm("simulations")
    time.sleep(60)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".venv").mkdir()
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "__init__.py").write_text(POLICIES)
    (tmp_path / "policies" / "warming.py").write_text(SIMULATIONS)
    return tmp_path


def kernels(project: Path) -> Kernels:
    return Kernels(Path(sys.executable), project)


def asked(project: Path) -> list[str]:
    """The policies for which each compilation was asked, all where there is none."""
    path = project / "policies" / "asked"
    return path.read_text().splitlines() if path.exists() else []


def started(project: Path) -> None:
    """One start: the first decision's kernels, then the rest."""
    mine = kernels(project)
    mine.start_first()
    mine.wait_for_first()
    mine.start_rest()
    if mine.rest is not None:
        assert mine.rest.wait(30) == 0


def test_they_are_compiled_once_for_each_change_of_the_policies(project):
    started(project)
    assert asked(project) == ["drfh", ""]
    started(project)
    assert asked(project) == ["drfh", ""]
    source = project / "policies" / "more.py"
    source.write_text("one = 1\n")
    started(project)
    assert asked(project) == ["drfh", ""] * 2


def test_who_needs_all_compiles_simulations_beside_and_waits_for_all(project):
    (project / "policies" / "__init__.py").write_text(
        POLICIES
        + """
    deadline = time.monotonic() + 30
    while not names and "simulations" not in (here / "asked").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
"""
    )
    kernels(project).compile_all()
    assert sorted(asked(project)) == ["", "simulations"]
    kernels(project).compile_all()
    started(project)
    assert sorted(asked(project)) == ["", "simulations"]


def test_the_rest_runs_at_the_lowest_priority_and_is_begun_again_when_it_was_ended(project):
    (project / "policies" / "slow").touch()
    mine = kernels(project)
    mine.start_rest()
    assert mine.rest is not None
    while not asked(project):
        assert mine.rest.poll() is None
    niceness = subprocess.run(
        ["ps", "-o", "nice=", "-p", str(mine.rest.pid)], capture_output=True, text=True
    )
    assert niceness.stdout.strip() == "19"
    mine.stop()
    assert mine.rest.poll() is not None
    (project / "policies" / "slow").unlink()
    started(project)
    assert asked(project) == ["", "drfh", ""]


def test_policies_that_cannot_be_imported_are_said_so(project):
    (project / "policies" / "__init__.py").write_text("raise RuntimeError('broken')\n")
    mine = kernels(project)
    mine.start_first()
    with pytest.raises(StepFailed, match="compile the numeric kernels") as failure:
        mine.wait_for_first()
    assert "broken" in str(failure.value)
