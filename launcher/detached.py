"""Background service of `./dev serve --detach` and `./dev stop`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from launcher import folders, processes
from launcher.accounts import server_account
from launcher.client import Client
from launcher.console import StepFailed, echo
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT
from launcher.serve import DATA

# From a fresh clone: packages, the database and the first kernels, on a slow machine.
_READY_SECONDS = 600.0
# A worker may take 130 s to finish its current work.
_STOP_SECONDS = 180.0
# One pool that cannot be metered fails a check forever, although requests are answered.
_PATIENCE_SECONDS = 90.0
_POLL_SECONDS = 0.1


def start(arguments: Sequence[str]) -> int:
    """Start `./dev serve` in the background and return 0 once every process is ready.

    A running service is left unchanged. Raises `StepFailed`.
    """
    if url := _running_url():
        echo(f"The service runs already, at {url}.")
        return 0
    VirtualEnvironment().ensure("local")  # here, so that its progress is seen
    folder = folders.data_home(server_account()) / DATA
    folders.make_passable(folder)
    output, progress = folder / "serve.log", folder / "serve-progress.log"
    for log in (output, progress):
        log.touch(mode=0o600)
    if folders.announced_pid(DATA) is None:
        _start(arguments, output, progress)
    else:
        echo("Another command is starting the service; waiting for it.")
    with progress.open() as lines:
        _wait_until_ready(lines, output, progress)
    return 0


def _start(arguments: Sequence[str], output: Path, progress: Path) -> None:
    for log in (output, progress):
        os.truncate(log, 0)
    with output.open("ab") as out, progress.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, PROJECT / "dev", "serve", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )
    while folders.announced_pid(DATA) is None and process.poll() is None:
        time.sleep(_POLL_SECONDS)


def _wait_until_ready(lines: IO[str], output: Path, progress: Path) -> None:
    """Wait until every check of the service passes.

    After `_PATIENCE_SECONDS`, answered requests suffice. Raises `StepFailed` if the service ends first
    or does not answer in time.
    """
    began = time.monotonic()
    failing = ["it does not answer"]
    while (waited := time.monotonic() - began) < _READY_SECONDS:
        _forward(lines.read())
        if folders.announced_pid(DATA) is None:
            raise StepFailed("start the service", f"read {output}", log=progress)
        if url := _running_url():
            answers, failing = _readiness(url)
            if not failing or (answers and waited > _PATIENCE_SECONDS):
                but = f" But {', '.join(failing)} (curl {url}/readyz)." if failing else ""
                echo(f"Ready.{but} Its output is in {output}; ./dev stop ends it.")
                return
        time.sleep(_POLL_SECONDS)
    raise StepFailed(
        f"wait until the service is ready ({', '.join(failing)} after {_READY_SECONDS:.0f} s)",
        f"read {output}; ./dev stop ends it",
        log=output,
    )


def stop() -> int:
    """Stop the running or starting service, in the background or in another terminal.

    Processes that a killed service left are waited for. Raises `StepFailed`.
    """
    pid = folders.announced_pid(DATA)
    if pid is None:
        return _wait_for_orphans()
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < deadline:
        if folders.announced_pid(DATA) != pid:
            echo("Stopped.")
            return 0
        time.sleep(_POLL_SECONDS)
    raise StepFailed(
        f"stop the service, process {pid} ({_STOP_SECONDS:.0f} s)",
        f"kill -9 {pid} ends it at once; accepted work is kept",
    )


def _wait_for_orphans() -> int:
    """Return 0 once the servers of a killed service have ended. Raises `StepFailed`."""
    folder = folders.data_home(server_account()) / DATA
    # A management command runs servers of its own there, and ends them itself.
    if folders.is_in_use(folder) or not processes.working_below(folder):
        echo("No service runs.")
        return 0
    echo("The service was killed. Waiting for its servers to end.")
    deadline = time.monotonic() + _STOP_SECONDS
    while left := processes.working_below(folder):
        if time.monotonic() > deadline:
            names = ", ".join(map(str, sorted(left)))
            raise StepFailed(
                f"wait for the servers of a killed service ({_STOP_SECONDS:.0f} s)",
                f"kill -9 {names} ends them at once; committed work is kept",
            )
        time.sleep(_POLL_SECONDS)
    echo("Stopped.")
    return 0


def _running_url() -> str | None:
    """Return the URL of the service that runs on the persistent data."""
    folder = folders.data_home(server_account()) / DATA
    state = folders.published_state(folder) if folders.is_in_use(folder) else None
    return None if state is None else state.get("url")


def _readiness(url: str) -> tuple[bool, list[str]]:
    """Return whether requests are answered, with a description of each failed check."""
    try:
        answer = Client(url).request("GET", "/readyz")
        checks = dict(answer.body["checks"])
    except (OSError, TypeError, KeyError):
        return False, ["it does not answer"]
    return answer.status == 200, [
        f"{name} is {state}" for name, state in checks.items() if state != "ok"
    ]


def _forward(text: str) -> None:
    """Print the output of the background launcher."""
    if text:
        print(text, end="", file=sys.stderr, flush=True)
