"""The worker's sign of life: a file with the monotonic time at which it last deserved one.

Whoever runs the worker starts it again when the sign is older than `SILENCE_SECONDS`: the launcher,
a container's health check (`python -m allocator_service.core.worker.pulse FILE`) and systemd, which
gets the same sign as WATCHDOG=1. The standard library only: the launcher and health checks load it.
"""

import contextlib
import socket
import sys
import time
from pathlib import Path

SILENCE_SECONDS = 30.0


def give(file: str, notify_socket: str = "") -> None:
    """Give the sign: in `file`, and to systemd at `notify_socket`, where they are named."""
    if file:
        draft = Path(f"{file}.new")
        draft.write_text(repr(time.monotonic()))
        draft.replace(file)
    if notify_socket:
        address = "\0" + notify_socket[1:] if notify_socket.startswith("@") else notify_socket
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.sendto(b"READY=1\nWATCHDOG=1", address)


def age_seconds(file: str | Path) -> float | None:
    """How old the last sign is; None where there has been none since this machine started."""
    try:
        given = float(Path(file).read_text())
    except (OSError, ValueError):
        return None
    age = time.monotonic() - given
    return age if age >= 0 else None


def is_silent(file: str | Path, silence_seconds: float = SILENCE_SECONDS) -> bool:
    """Whether there was a sign, and none for too long."""
    age = age_seconds(file)
    return age is not None and age > silence_seconds


if __name__ == "__main__":
    age = age_seconds(sys.argv[1])
    sys.exit(0 if age is not None and age <= SILENCE_SECONDS else 1)
