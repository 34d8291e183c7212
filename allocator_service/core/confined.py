"""What a process that works for others may take of the machine."""

import contextlib
import os
import resource
from pathlib import Path

_AUTOGROUP = Path("/proc/self/autogroup")


def confine(memory_bytes: int, niceness: int) -> None:
    """Limit the memory of this process, and let others have the processors first."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    os.nice(niceness)


def give_way(niceness: int) -> None:
    """Let every other process have the processors first, with all that this one starts.

    Where Linux shares the processors between sessions (`sched_autogroup_enabled`), `nice` counts within
    a session only: a process that leads one of its own makes all of it nice.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # another kernel
            _AUTOGROUP.write_text(str(niceness))
