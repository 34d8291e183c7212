"""A process's sign of life, a file with the monotonic time at which it was last given.

The supervisor restarts a process whose sign is too old. Supervisors are the launcher, a container's
health check (`python -m allocator_service.core.worker.pulse FILE [SECONDS]`) and systemd, which gets the
same sign as WATCHDOG=1. Uses the standard library only, because the launcher and health checks load it.

A worker gives it while it takes messages. Relay, sender and beat give it at each turn of their loops,
also of those in which they wait for a database or a broker that does not answer, because a new process
would wait, too.
"""

import contextlib
import socket
import sys
import time
from pathlib import Path

SILENCE_SECONDS = 30.0
# A turn of a loop may hold one statement that takes its full minute, and what follows from it.
TURN_SECONDS = 120.0


def give(file: str, notify_socket: str = "") -> None:
    """Give the sign in `file`, and to systemd at `notify_socket`, where they are named.

    A failure to write the file, as on a full disk, is ignored.
    """
    if file:
        with contextlib.suppress(OSError):
            draft = Path(f"{file}.new")
            draft.write_text(repr(time.monotonic()))
            draft.replace(file)
    if notify_socket:
        address = "\0" + notify_socket[1:] if notify_socket.startswith("@") else notify_socket
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.sendto(b"READY=1\nWATCHDOG=1", address)


class Sign:
    """A sign for loops that turn often, given once a second at most."""

    EVERY_SECONDS = 1.0

    def __init__(self, file: str, notify_socket: str = "") -> None:
        self._file, self._notify_socket = file, notify_socket
        self._due = 0.0

    def __call__(self) -> None:
        if time.monotonic() >= self._due:
            give(self._file, self._notify_socket)
            self._due = time.monotonic() + self.EVERY_SECONDS


def age_seconds(file: str | Path) -> float | None:
    """Return the age of the last sign, or None if none was given since this machine started."""
    try:
        given = float(Path(file).read_text())
    except (OSError, ValueError):
        return None
    age = time.monotonic() - given
    return age if age >= 0 else None


def is_silent(file: str | Path, silence_seconds: float = SILENCE_SECONDS) -> bool:
    """Return whether there was a sign, and none for too long."""
    age = age_seconds(file)
    return age is not None and age > silence_seconds


if __name__ == "__main__":
    age = age_seconds(sys.argv[1])
    allowed = float(sys.argv[2]) if len(sys.argv) > 2 else SILENCE_SECONDS
    sys.exit(0 if age is not None and age <= allowed else 1)
