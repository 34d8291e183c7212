"""`./dev manage`, a management command on serve's data, with or without a running service."""

import fcntl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from launcher import commands, folders
from launcher.console import StepFailed, echo
from launcher.environment import VirtualEnvironment
from launcher.folders import DataFolder, InUse
from launcher.processes import inherited_environment
from launcher.serve import DATA
from launcher.servers import Servers
from launcher.supervisor import interrupt_on_signals

_PATIENCE_SECONDS = 600.0
_NOTICE_AFTER_SECONDS = 3.0


def manage(arguments: Sequence[str]) -> int:
    """Run a management command and return its exit code. Raises `StepFailed`."""
    python = VirtualEnvironment().ensure("local")
    interrupt_on_signals()
    with _environment(python, arguments[:1]) as environment:
        return commands.run_in_foreground([python, "manage.py", *arguments], environment)


@contextmanager
def _environment(python: Path, command: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield the environment of serve's servers, which are started here unless another process runs them.

    If a service is starting, the command waits for it.
    """
    began = time.monotonic()
    is_noticed = False
    while True:
        is_starting = folders.announced_pid(DATA) is not None
        try:
            folder = folders.persistent(DATA)
        except InUse as in_use:
            if state := folders.published_state(in_use.folder):
                if list(command) == ["migrate"]:
                    commands.forget_migrations(in_use.folder)
                yield from _guest(in_use.folder, state)
                return
        else:
            if not is_starting:
                if list(command) == ["migrate"]:
                    commands.forget_migrations(folder.path)
                yield from _host(folder, python, command)
                return
            folder.release()
        waited = time.monotonic() - began
        if waited > _PATIENCE_SECONDS:
            raise StepFailed(
                f"join the service that starts ({waited:.0f} s)",
                "read what ./dev serve wrote; ./dev stop ends it",
            )
        if waited > _NOTICE_AFTER_SECONDS and not is_noticed:
            echo("Waiting for the service that is starting ...")
            is_noticed = True
        time.sleep(0.1)


def _guest(folder: Path, state: dict[str, str]) -> Iterator[Mapping[str, str]]:
    """Use the servers that another process runs."""
    with (folder / "guests").open("a") as guests:
        fcntl.flock(guests, fcntl.LOCK_SH)
        state.pop("url", None)
        yield {**inherited_environment(), **state, "ALLOCATOR_PROCESS": "manage"}


def _host(folder: DataFolder, python: Path, command: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Run the servers for one command, and for the guests that join meanwhile."""
    try:
        with Servers(folder) as servers:
            if servers.are_new and list(command) != ["migrate"]:
                echo("A new database: making its tables.")
                commands.migrate(python, servers)
            folder.publish(servers.environment)
            yield servers.environ(ALLOCATOR_PROCESS="manage")
            with (folder.path / "guests").open("a") as guests:
                fcntl.flock(guests, fcntl.LOCK_EX)  # the last guest has left
    finally:
        folder.release()
