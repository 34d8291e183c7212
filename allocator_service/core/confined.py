"""The limits of a process that works for others."""

import contextlib
import os
import resource
from pathlib import Path

_AUTOGROUP = Path("/proc/self/autogroup")


def confine(memory_bytes: int, niceness: int) -> None:
    """Limit the memory of this process, and give other processes priority."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    os.nice(niceness)


def give_way(niceness: int) -> None:
    """Give every other process priority over this one and all that it starts.

    Where Linux shares the processors between sessions (`sched_autogroup_enabled`), `nice` counts within
    a session only. A process that leads its own session therefore makes all of it nice.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # another kernel
            _AUTOGROUP.write_text(str(niceness))
