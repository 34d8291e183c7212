"""`./dev check` runs everything, says what failed and how to mend it."""

from pathlib import Path

import pytest

from devtools import checks, locks
from devtools.checks import Check
from launcher import declared
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs `check` with the given checks in place of the project's; returns code and output."""

    def run_checks(*replaced: Check):
        monkeypatch.setattr(VirtualEnvironment, "ensure", lambda *_: Path("python"))
        monkeypatch.setattr(checks, "checks", lambda _python: list(replaced))
        return checks.check(), capsys.readouterr().out

    return run_checks


def test_all_run_even_after_one_failed_and_the_failed_say_how_to_mend(run):
    code, output = run(
        Check("first", lambda: "line 3 is wrong", "correct line 3"),
        Check("second", lambda: "", "nothing"),
    )
    assert code == 1
    lines = output.splitlines()
    assert lines[0].startswith("FAILED first (")
    assert lines[1] == "line 3 is wrong"
    assert lines[2].startswith("ok     second (")
    assert lines[3:] == ["To mend first: correct line 3", "Some checks failed."]


def test_when_all_hold_it_says_so(run):
    code, output = run(Check("only", lambda: "", "nothing"))
    assert code == 0
    assert output.splitlines()[-1] == "All checks hold."


def test_the_output_of_a_command_is_its_problem_only_when_it_fails():
    assert checks._failure(["sh", "-c", "echo fine"], {}) == ""
    assert checks._failure(["sh", "-c", "echo wrong; exit 3"], {}) == "wrong\n"
    assert checks._failure(["sh", "-c", "exit 3"], {}) == "it failed silently"


def test_a_drift_of_the_openapi_document_is_shown_as_a_difference(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "PROJECT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "openapi.yaml").write_text("openapi: 3.0.3\npaths: {}\n")

    def generate(command, _env):
        Path(command[-1]).write_text("openapi: 3.0.3\npaths: {/pools/: {}}\n")
        return ""

    monkeypatch.setattr(checks, "_failure", generate)
    difference = checks._openapi_drift(Path("python")).splitlines()
    assert difference[-2:] == ["-paths: {}", "+paths: {/pools/: {}}"]


@pytest.mark.parametrize("declaration", declared.DECLARATIONS)
def test_a_lock_is_out_of_date_when_the_declared_dependencies_change(declaration, tmp_path):
    for name in declared.DECLARATIONS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('[project]\nname = "p"\ndependencies = ["a"]\n')
    mark = f"# dependencies declared: sha256 {declared.declared_digest(tmp_path)}\na==1\n"
    for name in locks.LOCKS:
        (tmp_path / name).write_text(mark)
    assert locks.outdated(tmp_path) == []
    pyproject = tmp_path / declaration
    pyproject.write_text(pyproject.read_text().replace('["a"]', '["a", "b"]'))
    assert locks.outdated(tmp_path) == list(locks.LOCKS)


def test_the_committed_locks_are_up_to_date_and_name_no_registry():
    assert locks.outdated() == []
    for name in locks.LOCKS:
        text = (PROJECT / name).read_text()
        assert "--index-url" not in text
        assert "--find-links" not in text
        assert "://" not in text
