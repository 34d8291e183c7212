"""Child processes that never outlive this one, not even when it is killed with SIGKILL.

The kernel sends a child its orphan signal when the *thread* that started it ends, so start
processes from a thread that lives as long as they should: the main one.
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
from launcher.console import StepFailed, say

_PR_SET_PDEATHSIG = 1
_SIG_DFL = 0
_POLL_SECONDS = 0.02
# How long what is ending may take before it gets the next stronger signal.
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

    `output` takes both its output streams; `orphan_signal` is what it gets when we are killed.
    A Ctrl-C at the terminal does not reach it: who started it stops it, in order.
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
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        start_new_session=True,
        pass_fds=pass_fds,
        preexec_fn=tie_to_launcher,  # system calls only: nothing in it can wait for a lock
        **(account.identity if account else {}),
    )


def inherited_environment() -> dict[str, str]:
    """Our environment for a Python child, which may keep the bytecode of the project's modules.

    Some machines set PYTHONDONTWRITEBYTECODE for everything; it doubles every start.
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
    """Return when `ready()` holds.

    Raises `StepFailed` when the process ends or `seconds` pass before that; the process is
    stopped then, as it is when the waiting is interrupted.
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
    """Stop a process: the signal `first`, then `finish` it. Returns its exit code."""
    process.send_signal(first)
    return finish(process, patience_seconds)


def finish(process: Process, patience_seconds: float) -> int:
    """Wait for a process that is ending, `patience_seconds` at most, and return its exit code.

    What is left of its group then, and itself if it did not end, is killed.
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience_seconds)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def working_below(folder: Path) -> set[int]:
    """Return the ids of the processes whose working folder is directly below `folder`."""
    return {pid for each in folder.glob("*/") for pid in working_in(each)}


def working_in(folder: Path) -> set[int]:
    """The ids of the processes whose working folder is `folder` (Linux; elsewhere none).

    PostgreSQL's processes and Valkey work in their data folder, so this finds what a crashed
    launcher left ending, where a process id in a file may since be somebody else's.
    """
    found = set()
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if link.readlink() == folder:
                found.add(int(link.parent.name))
    return found


def end_what_works_in(
    folder: Path, *, step: str, program: str, signals: Sequence[signal.Signals]
) -> None:
    """Wait until no process works in `folder`.

    Those of a crashed launcher are ending already. If they still run after `PATIENCE_SECONDS` they get
    the first of `signals`, after as long again the next. Only processes whose program's name has
    `program` in it get any: somebody may have gone into the folder with a shell. Raises `StepFailed`.
    """
    for number in (None, *signals):
        remaining = working_in(folder)
        for pid in remaining:
            if number is not None and program in _program_of(pid):
                say(f"Process {pid} still uses {folder}: sending it {number.name}.")
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
    """Write down which processes were started, for `end_recorded`."""
    started = {name: [pid, _started_at(pid)] for name, pid in pids.items()}
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(started))
    draft.replace(file)


def end_recorded(file: Path, *, working_in: Path) -> None:
    """Kill what a crashed launcher started and left: the recorded processes and their groups.

    A number may be another process's by now: one is only taken for ours if it began when ours did, or
    belongs to its group and works in the same folder.
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
                say(f"{name} of a launcher that is gone still runs: ending it.")
            for member in left:
                with contextlib.suppress(OSError):
                    os.kill(member, signal.SIGKILL)
    file.unlink(missing_ok=True)


def _group(pid: int) -> list[int]:
    """The processes of the group that `pid` leads or led (Linux; elsewhere none)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[2]) == pid:
                found.append(int(stat.parent.name))
    return found


def _started_at(pid: int) -> int | None:
    """When a process began, in ticks since the machine did."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None


def _works_in(pid: int, folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cwd").readlink() == folder
    return False
