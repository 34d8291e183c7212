"""Garbage collection of a process of the service."""

import subprocess
import sys

COUNTED = """
import gc
from allocator_service.core.garbage import THRESHOLD, collect_rarely
collect_rarely()
assert gc.isenabled() and gc.get_threshold()[0] == THRESHOLD
assert gc.get_freeze_count() > 1000  # what is loaded is not looked through again
cycle = []
cycle.append(cycle)
del cycle
kept = [[] for _ in range(THRESHOLD)]  # which is collected in their course
print(gc.get_stats()[0]["collected"])
"""


def test_cycles_are_collected_among_what_is_new():
    # In a process of its own: it is for good.
    run = subprocess.run(
        [sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) > 0
