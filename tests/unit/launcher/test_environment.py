"""The virtual environment is made from a lock, once, and made again when that changes."""

import hashlib
import importlib.util
import subprocess
import zipfile
from pathlib import Path

import pytest

from launcher.console import StepFailed
from launcher.environment import VirtualEnvironment

PYPROJECT = '[project]\nname = "p"\nversion = "1"\ndependencies = ["tiny"]\n\n[tool.x]\ny = 1\n'
LOCKS = ("requirements.lock", "requirements-local.lock", "requirements-dev.lock")


class Recorded(VirtualEnvironment):
    """An environment whose commands are written down instead of run."""

    def __init__(self, project: Path) -> None:
        super().__init__(project)
        self.steps: list[str] = []

    def _run(self, step, _command, _advice):
        self.folder.mkdir(exist_ok=True)
        self.steps.append(step)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in (tmp_path, tmp_path / "policies", tmp_path / "client"):
        folder.mkdir(exist_ok=True)
        (folder / "pyproject.toml").write_text(PYPROJECT)
    for name in LOCKS:
        (tmp_path / name).write_text(f"tiny==1.0 --hash=sha256:{name}\n")
    return tmp_path


def ensured(project: Path, content: str) -> list[str]:
    """The steps taken to make the environment hold `content`."""
    environment = Recorded(project)
    assert environment.ensure(content) == project / ".venv" / "bin" / "python"
    return environment.steps


def test_it_is_made_once(project):
    made = ["make a virtual environment", "install requirements-local.lock"]
    assert ensured(project, "local") == made
    assert ensured(project, "local") == []


def test_the_tools_of_the_tests_are_added_to_what_is_there(project):
    ensured(project, "local")
    assert ensured(project, "dev") == ["install requirements-dev.lock"]
    assert ensured(project, "dev") == []


def test_what_serves_the_tests_serves_the_rest(project):
    ensured(project, "dev")
    assert ensured(project, "local") == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("requirements-local.lock", "tiny==1.0", "tiny==1.1"),
        ("pyproject.toml", '["tiny"]', '["tiny", "small"]'),
    ],
)
def test_it_is_made_again_when_the_lock_or_the_declared_dependencies_change(
    project, name, old, new
):
    made = ensured(project, "local")
    path = project / name
    path.write_text(path.read_text().replace(old, new))
    assert ensured(project, "local") == made


def test_it_is_made_again_for_another_interpreter(project, monkeypatch):
    made = ensured(project, "local")
    monkeypatch.setattr("sys.version", "3.14.0 (another one)")
    assert ensured(project, "local") == made


def test_a_tools_setting_in_pyproject_does_not_make_it_again(project):
    ensured(project, "local")
    path = project / "pyproject.toml"
    path.write_text(path.read_text().replace("y = 1", "y = 2"))
    assert ensured(project, "local") == []


def test_an_installation_that_was_interrupted_is_begun_again(project):
    (project / ".venv").mkdir()
    assert ensured(project, "local")[0] == "make a virtual environment"


def test_without_python3_venv_it_says_what_to_install(project, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ensurepip" else found(name)
    )
    with pytest.raises(StepFailed) as failure:
        VirtualEnvironment(project).ensure("local")
    assert failure.value.step == "make a virtual environment"
    assert "apt-get install python3-venv" in failure.value.advice
    assert not (project / ".venv").exists()


def wheel(folder: Path, name: str) -> str:
    """Make the wheel of a package `name` in `folder` and return the hash of the file."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "ANSWER = 42\n")
        about = f"{name}-1.0.dist-info"
        archive.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_real_one_holds_the_locked_files_and_refuses_others(project, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(project))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    locked = f"tiny==1.0 --hash=sha256:{wheel(project, 'tiny')}\n"
    (project / "requirements-local.lock").write_text(locked)
    python = VirtualEnvironment(project).ensure("local")
    done = subprocess.run([python, "-c", "import tiny; print(tiny.ANSWER)"], capture_output=True)
    assert done.stdout == b"42\n"

    wheel(project, "small")
    other_file = f"small==1.0 --hash=sha256:{'0' * 64}\n"
    (project / "requirements-dev.lock").write_text(locked + other_file)
    with pytest.raises(StepFailed) as failure:
        VirtualEnvironment(project).ensure("dev")
    assert failure.value.step == "install requirements-dev.lock"
    assert "DO NOT MATCH THE HASHES" in str(failure.value)
    assert not list(project.glob(".venv/lib/*/site-packages/small.py"))
