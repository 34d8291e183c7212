"""The service as `./dev serve` runs it, in a data folder of its own that may be on a small disk."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from launcher import folders, processes
from launcher.client import Client

STARTING_SECONDS = 120.0
DISK_BYTES = 2 * 1024**3
# What of a test session's environment would lead the launcher to the session's own servers.
_SERVERS = ("DATABASE_URL", "MIGRATION_DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")


def _own_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _SERVERS}


class LaunchedService:
    """A launcher that can be killed and started again on the same data and port.

    `clock` is the file that says by how many seconds the service's clock differs from the machine's.
    """

    def __init__(self, log: Path, *options: str, **variables: str) -> None:
        """`options` are those of `./dev serve`, `variables` what its environment has besides."""
        self.home = Path(tempfile.mkdtemp(prefix="storm-", dir="/tmp"))
        self.home.chmod(0o755)
        self.has_own_disk = _mounted(self.home)
        self.data = self.home / "serve"
        self._log, self._options = log, options
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        clock_folder = Path(tempfile.mkdtemp(prefix="clock-", dir="/tmp"))
        clock_folder.chmod(0o755)
        self.clock = clock_folder / "clock"
        self.turn_clock(0.0)
        self._environment = {
            **_own_environment(),
            "ALLOCATOR_STATE_DIR": str(self.home),
            "PORT": str(self._port),
            "CLOCK_FILE": str(self.clock),
            "THROTTLE_RATE": "100000",
            "THROTTLE_BURST": "100000",
            **variables,
        }
        self.launcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "LaunchedService":
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.launcher is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.launcher.send_signal(signal.SIGTERM)
                self.launcher.wait(60)
            self.launcher.kill()
            self.launcher.wait()
        if self.has_own_disk:
            subprocess.run(["umount", "--lazy", self.home], check=False)
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.clock.parent, ignore_errors=True)

    def start(self) -> None:
        """Start the launcher and wait until the service is ready."""
        with self._log.open("ab") as log:
            self.launcher = subprocess.Popen(
                [sys.executable, folders.PROJECT / "dev", "serve", *self._options],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + STARTING_SECONDS
        while not self.ready():
            assert self.launcher.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < deadline, self._log.read_text()[-3000:]
            time.sleep(0.1)

    def ready(self) -> bool:
        with contextlib.suppress(OSError):
            return Client(self.url).request("GET", "/readyz").status == 200
        return False

    def kill_launcher(self) -> None:
        """Kill the launcher as `kill -9` does: it can stop nothing of what it started."""
        assert self.launcher is not None
        self.launcher.kill()
        self.launcher.wait()

    def turn_clock(self, seconds: float) -> None:
        fresh = self.clock.with_suffix(".fresh")
        fresh.write_text(f"{seconds:+f}")
        fresh.replace(self.clock)

    @property
    def state(self) -> dict[str, Any]:
        """The variables that lead to its servers."""
        state = folders.published_state(self.data)
        assert state is not None, f"the launcher has stopped: {self._log.read_text()[-3000:]}"
        return state

    def database(self) -> str:
        return str(self.state["MIGRATION_DATABASE_URL"])

    def pid(self, name: str) -> int | None:
        """The process of a component, if the launcher has one running."""
        with contextlib.suppress(OSError, ValueError):
            found: int = json.loads((self.data / "processes.json").read_text())[name][0]
            if Path(f"/proc/{found}").exists():
                return found
        return None

    def children(self, name: str) -> list[int]:
        parent = self.pid(name)
        with contextlib.suppress(OSError):
            return [
                int(child)
                for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            ]
        return []

    def servers_of(self, name: str) -> set[int]:
        """The processes of `postgres` or `redis`, the postmaster among them."""
        return processes.working_in(self.data / name)

    def second(self, *command: str) -> subprocess.Popen[bytes]:
        """Another process of the service beside the launcher's."""
        environment = {
            "DJANGO_SETTINGS_MODULE": "allocator_service.settings.local",
            **self._environment,
            **{name: str(value) for name, value in self.state.items() if name != "url"},
        }
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *command],
                env=environment,
                cwd=folders.PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def manage(self, *arguments: str) -> str:
        """Run a management command; returns its standard output."""
        return subprocess.run(
            [sys.executable, folders.PROJECT / "dev", "manage", *arguments],
            env=self._environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
        ).stdout.strip()


def _mounted(folder: Path) -> bool:
    """Whether the folder got a small disk of its own, in memory; only root can have that."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
