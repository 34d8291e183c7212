"""Slurm's commands as child processes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from allocator_agent.errors import SchedulerAway

_SECONDS = 120.0
_SIDE_BY_SIDE = 16
# sacctmgr and sacct ask slurmdbd for the names of TRES by themselves. If it ends in between, they print
# rows without limits or amounts, and exit with 0.
_HALF_ANSWERED = re.compile(r"error: DBD_\w+ failure")


class Commands:
    """The commands of one cluster. They print times in UTC and ignore a user's own formats."""

    def __init__(self, folder: str = "", seconds: float = _SECONDS) -> None:
        self._folder, self._seconds = folder, seconds
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SQUEUE_", "SACCT_", "SINFO_", "SLURM_TIME_FORMAT"))
        }
        self._environment |= {"TZ": "UTC", "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "standard"}

    def run(self, program: str, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        """Return the output of a command.

        Raises `SchedulerAway` with its message if it fails, or if slurmdbd ended while it was asked.
        """
        command = [str(Path(self._folder, program)) if self._folder else program, *arguments]
        try:
            done = subprocess.run(
                command,
                env=self._environment,
                input=input,
                stdin=subprocess.DEVNULL if input is None else None,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._seconds,
                check=False,
            )
        except FileNotFoundError:
            raise SchedulerAway(f"there is no {command[0]}: set [slurm] bin") from None
        except OSError as error:
            raise SchedulerAway(f"{command[0]} cannot be run: {error}") from error
        except subprocess.TimeoutExpired:
            raise SchedulerAway(f"{program} took more than {self._seconds:g} s") from None
        if done.returncode or _HALF_ANSWERED.search(done.stderr):
            output = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
            verb = next((word for word in arguments if not word.startswith("-")), "")
            raise SchedulerAway(f"{program} {verb}".strip() + f" failed with: {_message(output)}")
        return done.stdout

    def run_all(self, commands: Iterable[tuple[str, ...]]) -> None:
        """Run commands side by side, in any order. Raises as `run`, and then begins no further one.

        Most of a command's time is spent waiting for a daemon's answer.
        """
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as threads:
            begun = [threads.submit(self.run, *command) for command in commands]
            ended, waiting = wait(begun, return_when=FIRST_EXCEPTION)
            for each in waiting:
                each.cancel()
        for each in ended:
            each.result()


def _message(lines: Sequence[str]) -> str:
    """Return the last line of a message, after the first one, which often names the cause."""
    first, last = lines[0].strip(), lines[-1].strip()
    return last if first == last else f"{first}; {last}"
