"""Child processes that never outlive this one, not even when it is killed with SIGKILL.

The kernel sends a child its orphan signal when the *thread* that started it ends. Processes must
therefore be started from a thread that lives as long as they do, the main thread.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import IO

from launcher.accounts import Account
from launcher.console import StepFailed, echo

_PR_SET_PDEATHSIG = 1
_SIG_DFL = 0
_POLL_SECONDS = 0.02
# Time that a process may take to end before it gets the next stronger signal.
PATIENCE_SECONDS = 30.0
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

Process = subprocess.Popen[bytes]


def start(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    account: Account | None = None,
    output: IO[bytes] | int | None = None,
    pass_fds: Collection[int] = (),
    orphan_signal: signal.Signals = signal.SIGTERM,
) -> Process:
    """Start `command` in a process group of its own, tied to the life of the calling thread.

    `output` receives both output streams. `orphan_signal` is sent to the process if the launcher is
    killed. A Ctrl-C at the terminal does not reach it, so that the caller can stop its processes in
    order.
    """
    launcher_pid = os.getpid()

    def tie_to_launcher() -> None:
        if _libc is None:
            return
        # A script's background job ignores some signals, and what it starts inherits that.
        _libc.signal(int(orphan_signal), _SIG_DFL)
        _libc.prctl(_PR_SET_PDEATHSIG, int(orphan_signal))
        if os.getppid() != launcher_pid:  # it died before the line above
            os.kill(os.getpid(), signal.SIGKILL)

    return subprocess.Popen(
        [str(part) for part in command],
        env=None if env is None else dict(env),
        cwd=cwd,
        # A child must not take what is typed for the launcher.
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        start_new_session=True,
        pass_fds=pass_fds,
        preexec_fn=tie_to_launcher,  # system calls only: nothing in it can wait for a lock
        **(account.identity if account else {}),
    )


def inherited_environment() -> dict[str, str]:
    """Return the environment for a Python child, without PYTHONDONTWRITEBYTECODE.

    Some machines set that variable for all processes, and it doubles the time of every start.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def wait_until_ready(
    ready: Callable[[], bool],
    *,
    process: Process,
    step: str,
    log: Path | None = None,
    advice: str = "read the log above",
    seconds: float = 30.0,
) -> None:
    """Wait until `ready()` returns True.

    Raises `StepFailed` if the process ends or `seconds` pass before that. The process is then stopped,
    and also if the wait is interrupted.
    """
    deadline = time.monotonic() + seconds
    is_ready = False
    try:
        while not (is_ready := ready()) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    finally:
        if not is_ready:
            code = process.poll()
            stop(process, patience_seconds=5)
    if not is_ready:
        how = f"not ready after {seconds:.0f} s" if code is None else f"it ended with code {code}"
        raise StepFailed(f"{step} ({how})", advice, log=log)


def stop(
    process: Process, *, first: signal.Signals = signal.SIGTERM, patience_seconds: float = 30.0
) -> int:
    """Send the signal `first` to a process, `finish` it, and return its exit code."""
    process.send_signal(first)
    return finish(process, patience_seconds)


def finish(process: Process, patience_seconds: float) -> int:
    """Wait for a process that is ending, `patience_seconds` at most, and return its exit code.

    The remaining processes of its group are then killed, and the process itself if it did not end.
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience_seconds)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # Children of a server that has crashed would keep its ports and files.
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def working_below(folder: Path) -> set[int]:
    """Return the ids of the processes whose working folder is directly below `folder`."""
    return {pid for each in folder.glob("*/") for pid in working_in(each)}


def working_in(folder: Path) -> set[int]:
    """Return the ids of the processes whose working folder is `folder`. Only Linux has them.

    PostgreSQL's processes and Valkey work in their data folder, so this finds the processes that a
    crashed launcher left. A process id in a file may meanwhile belong to another process.
    """
    found = set()
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if link.readlink() == folder:
                found.add(int(link.parent.name))
    return found


def end_processes_in(
    folder: Path, *, step: str, program: str, signals: Sequence[signal.Signals]
) -> None:
    """Wait until no process works in `folder`.

    Those of a crashed launcher are already ending. If they still run after `PATIENCE_SECONDS`, they get
    the first of `signals`, and after the same time the next. Only processes whose program name contains
    `program` get a signal, because a user's shell may be in the folder. Raises `StepFailed`.
    """
    for number in (None, *signals):
        remaining = working_in(folder)
        for pid in remaining:
            if number is not None and program in _program_of(pid):
                echo(f"Process {pid} still uses {folder}: sending it {number.name}.")
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while remaining and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            remaining = working_in(folder)
        if not remaining:
            return
    names = ", ".join(map(str, sorted(remaining)))
    raise StepFailed(step, f"stop the processes {names}, which still use {folder}")


def _program_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name
    return ""


def record(pids: Mapping[str, int], file: Path) -> None:
    """Record the started processes in a file, for `end_recorded`."""
    started = {name: [pid, _started_at(pid)] for name, pid in pids.items()}
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(started))
    draft.replace(file)


def end_recorded(file: Path, *, working_in: Path) -> None:
    """Kill the recorded processes of a crashed launcher, with their groups.

    A recorded id may meanwhile belong to another process. It is only killed if it has the recorded start
    time, or belongs to the group of a recorded process and works in the same folder.
    """
    with contextlib.suppress(OSError, ValueError):
        for name, (pid, began) in json.loads(file.read_text()).items():
            left = [
                member
                for member in _group(pid)
                if (
                    _started_at(member) == began if member == pid else _works_in(member, working_in)
                )
            ]
            if left:
                echo(f"{name} of a launcher that is gone still runs: ending it.")
            for member in left:
                with contextlib.suppress(OSError):
                    os.kill(member, signal.SIGKILL)
    file.unlink(missing_ok=True)


def _group(pid: int) -> list[int]:
    """Return the processes of the group that `pid` leads or led. Only Linux has them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # After the last parenthesis: the program's name may contain spaces and parentheses itself.
            if int(stat.read_text().rpartition(")")[2].split()[2]) == pid:
                found.append(int(stat.parent.name))
    return found


def _started_at(pid: int) -> int | None:
    """Return the start time of a process, in ticks since the machine started."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None


def _works_in(pid: int, folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cwd").readlink() == folder
    return False
