"""`./dev serve --detach` and `./dev stop`: the service in the background."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from launcher import folders
from launcher.accounts import server_account
from launcher.client import Client
from launcher.console import StepFailed, say
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT
from launcher.serve import DATA

# From a fresh clone: packages, the database and the first kernels, on a slow machine.
_READY_SECONDS = 600.0
# A worker may take 130 s to finish the work in hand.
_STOP_SECONDS = 180.0
_POLL_SECONDS = 0.1


def start(arguments: Sequence[str]) -> int:
    """Start `./dev serve` in the background; return 0 when every process of it is ready.

    A service that runs already is left as it is. Raises `StepFailed`.
    """
    if url := _running_url():
        say(f"The service runs already, at {url}.")
        return 0
    VirtualEnvironment().ensure("local")  # here, so that its progress is seen
    folder = folders.data_home(server_account()) / DATA
    folders.make_passable(folder)
    output, progress = folder / "serve.log", folder / "serve-progress.log"
    for log in (output, progress):
        log.touch(mode=0o600)
    with output.open("wb") as out, progress.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, PROJECT / "dev", "serve", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )
    with progress.open() as lines:
        deadline = time.monotonic() + _READY_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            _forward(lines.read())
            if (url := _running_url()) and _is_ready(url):
                say(f"Ready. Its output is in {output}; ./dev stop ends it.")
                return 0
            time.sleep(_POLL_SECONDS)
    if process.poll() is None:
        raise StepFailed(
            f"wait until the service is ready ({_READY_SECONDS:.0f} s)",
            f"read {output}; ./dev stop ends it",
            log=output,
        )
    raise StepFailed(
        f"start the service (it ended with code {process.returncode})",
        f"read {output}",
        log=progress,
    )


def stop() -> int:
    """End the service that runs, or starts, in the background or in another terminal.

    Raises `StepFailed`.
    """
    pid = folders.announced_pid(DATA)
    if pid is None:
        say("No service runs.")
        return 0
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < deadline:
        if folders.announced_pid(DATA) != pid:
            say("Stopped.")
            return 0
        time.sleep(_POLL_SECONDS)
    raise StepFailed(
        f"stop the service, process {pid} ({_STOP_SECONDS:.0f} s)",
        f"kill -9 {pid} ends it at once; accepted work is kept",
    )


def _running_url() -> str | None:
    """The address of the service that runs on the lasting data."""
    folder = folders.data_home(server_account()) / DATA
    state = folders.published_state(folder) if folders.is_in_use(folder) else None
    return None if state is None else state.get("url")


def _is_ready(url: str) -> bool:
    with suppress(OSError):
        answer = Client(url).request("GET", "/readyz")
        return answer.status == 200 and set(answer.body["checks"].values()) == {"ok"}
    return False


def _forward(text: str) -> None:
    """Show what the launcher in the background says."""
    if text:
        print(text, end="", file=sys.stderr, flush=True)
