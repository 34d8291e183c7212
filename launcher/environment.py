"""The virtual environment `.venv`, installed from a lock with a hash for every file.

It has one of two contents. `local` runs the service, with PostgreSQL and Redis. `dev` adds the tools of
the tests. A stamp in the environment records the sources, and the environment is installed again only
if they change. Nothing is compiled to bytecode beforehand, because most modules are never imported, and
the first import of a module stores its bytecode.
"""

import fcntl
import hashlib
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from launcher.console import StepFailed, echo
from launcher.declared import declared_digest
from launcher.folders import PROJECT, make_passable

_LOCKS = {"local": "requirements-local.lock", "dev": "requirements-dev.lock"}
_BASE = getattr(sys, "_base_executable", sys.executable)
_ABOUT_SECONDS = 20
_HOLDS = {"local": {"local"}, "dev": {"local", "dev"}}


def _can_install_elsewhere() -> bool:
    """Return whether this Python has a pip with `--python`, which exists since 22.3."""
    asked = [_BASE, "-c", "import pip; print(pip.__version__)"]
    version = subprocess.run(asked, capture_output=True, text=True).stdout.split(".")
    return version[0].isdigit() and tuple(map(int, version[:2])) >= (22, 3)


class VirtualEnvironment:
    """Virtual environment of the project, or in tests that of another project."""

    def __init__(self, project: Path = PROJECT) -> None:
        self._project = project
        self.folder = project / ".venv"
        self.python = self.folder / "bin" / "python"
        self._stamp = self.folder / "allocator-stamp.json"
        self._log = project / ".data" / "install.log"

    def ensure(self, content: str) -> Path:
        """Install `local` or `dev` in `.venv` if it is absent, and return the interpreter.

        Raises `StepFailed` with the step and the last lines of its log.
        """
        make_passable(self._log.parent)
        with (self._log.parent / "install.lock").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)  # two commands started side by side install once
            held = self._held()
            if content not in held:
                self._install(content, keep=bool(held))
        return self.python

    def stamp(self, content: str) -> None:
        """Record that the environment holds `content`."""
        self._stamp.write_text(json.dumps({"content": content, "from": self._origin(content)}))

    def _held(self) -> set[str]:
        """Return the contents of the environment that still match the locks."""
        try:
            stamp = json.loads(self._stamp.read_text())
            held = _HOLDS[stamp["content"]]
        except (OSError, ValueError, KeyError):
            return set()
        return held if stamp["from"] == self._origin(stamp["content"]) else set()

    def _origin(self, content: str) -> dict[str, str]:
        """Return everything that determines the installed files."""
        lock = (self._project / _LOCKS[content]).read_bytes()
        # Of the base: within the environment, `sys.executable` is the environment's own link.
        interpreter = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        return {
            "interpreter": f"{interpreter} {sys.version}",
            "declared": declared_digest(self._project),
            "lock": hashlib.sha256(lock).hexdigest(),
        }

    def _install(self, content: str, *, keep: bool) -> None:
        lock = _LOCKS[content]
        count = (self._project / lock).read_text().count("==")
        about = f"about {_ABOUT_SECONDS} s, once"
        echo(f"Installing {count} packages from {lock} into .venv ({about}) ...")
        began = time.monotonic()
        self._log.write_text("")
        if not keep:
            self._make_empty()
        self._run(
            f"install {lock}",
            [
                *(*self._pip(), "install", "--requirement", self._project / lock),
                # The lock names every package: pip's resolver could only take others.
                *("--require-hashes", "--no-deps", "--no-compile"),
                *("--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
            ],
            "check the network and pip's configuration (pip config list), then try again",
        )
        # Last, so that an installation that was interrupted is repeated.
        self.stamp(content)
        echo(f"Installed in {time.monotonic() - began:.0f} s.")

    def _make_empty(self) -> None:
        if importlib.util.find_spec("ensurepip") is None:
            raise StepFailed(
                "make a virtual environment",
                "Python's venv module is not complete here: install it "
                "(Debian and Ubuntu: apt-get install python3-venv), then try again",
            )
        without = ["--without-pip"] if _can_install_elsewhere() else []
        self._run(
            "make a virtual environment",
            [_BASE, "-m", "venv", "--clear", *without, self.folder],
            "free space or repair the permissions of the project's folder "
            "(Debian and Ubuntu also need: apt-get install python3-venv)",
        )

    def _pip(self) -> list[str | Path]:
        """Return the command of the environment's pip, or of this Python's own.

        Installing a second pip would take seconds.
        """
        if any(self.folder.glob("lib/*/site-packages/pip")):
            return [self.python, "-m", "pip"]
        return [_BASE, "-m", "pip", "--python", self.python]

    def _run(self, step: str, command: Sequence[str | Path], advice: str) -> None:
        with self._log.open("ab") as log:
            done = subprocess.run(command, cwd=self._project, stdout=log, stderr=subprocess.STDOUT)
        if done.returncode:
            raise StepFailed(step, advice, log=self._log)
