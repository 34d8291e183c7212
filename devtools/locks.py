"""Generation and checks of the four dependency locks."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from launcher.console import StepFailed, echo
from launcher.declared import declared_digest
from launcher.folders import PROJECT

LIBRARY = "allocation-policies"
# Lock -> the project and extras whose dependencies it pins. A package of an earlier lock has the same
# version in both.
LOCKS = {
    "requirements.lock": ["pyproject.toml"],
    "requirements-local.lock": ["pyproject.toml", "--extra", "local"],
    "requirements-client.lock": [
        *("client/pyproject.toml", "--extra", "verify"),
        *("--constraint", "requirements.lock"),
    ],
    "requirements-dev.lock": [
        *("pyproject.toml", "--extra", "local", "--extra", "dev"),
        *("--constraint", "requirements-client.lock"),
    ],
}
_MARK = "# dependencies declared: sha256 "


def outdated(project: Path = PROJECT) -> list[str]:
    """Return the locks that do not match the current declarations."""
    mark = _MARK + declared_digest(project)
    return [lock for lock in LOCKS if mark not in (project / lock).read_text().splitlines()]


def lock() -> int:
    """Resolve the locks again with uv. Pinned versions stay unless a declaration excludes them."""
    with tempfile.TemporaryDirectory() as scratch:
        uv = shutil.which("uv") or _installed_uv(Path(scratch))
        for name, what in LOCKS.items():
            echo(f"Resolving {name} ...")
            _compile(str(uv), name, what)
    return 0


def _installed_uv(scratch: Path) -> Path:
    _run("make an environment for uv", [sys.executable, "-m", "venv", str(scratch)])
    python = scratch / "bin" / "python"
    _run("install uv", [str(python), "-m", "pip", "install", "--quiet", "uv"])
    return scratch / "bin" / "uv"


def _compile(uv: str, name: str, what: list[str]) -> None:
    command = [uv, "pip", "compile", *what, "--quiet", "--output-file", name]
    command += ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header"]
    command += ["--no-emit-index-url", "--no-emit-find-links"]  # no address in a committed file
    command += ["--no-emit-package", LIBRARY]  # it is in the tree, not in an index
    _run(f"resolve {name}", command)
    path = PROJECT / name
    path.write_text(f"{_MARK}{declared_digest()}\n{path.read_text()}")


def _run(step: str, command: list[str]) -> None:
    env = {"UV_SYSTEM_CERTS": "1", **os.environ}
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True)
    if done.returncode:
        raise StepFailed(step, "read the output of uv above", log=done.stdout + done.stderr)
