"""What a process that solves for others may take of the machine."""

import os
import resource


def confine(memory_bytes: int, niceness: int) -> None:
    """Limit the memory of this process, and let others have the processors first."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    os.nice(niceness)
