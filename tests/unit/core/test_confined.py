"""A process that gives way does so beside other sessions too, and with what it starts."""

import subprocess
import sys
from pathlib import Path

import pytest

AUTOGROUP = Path("/proc/self/autogroup")
# The file is empty for a process in a control group that has a share of the processors of its own.
SHARED = AUTOGROUP.exists() and AUTOGROUP.read_text().split()
PROGRAM = """
import os, subprocess, sys
from allocator_service.core.confined import give_way
give_way(7)
print(os.nice(0), subprocess.run(["nice"], capture_output=True, text=True).stdout.strip())
if os.path.exists("/proc/self/autogroup"):
    print(open("/proc/self/autogroup").read())
"""


def told(*, leads: bool) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=leads,
    )
    return done.stdout.split()


def test_it_is_nice_and_so_is_what_it_starts():
    assert told(leads=True)[:2] == ["7", "7"]


@pytest.mark.skipif(not SHARED, reason="processors are not shared between sessions here")
def test_who_leads_a_session_makes_all_of_it_nice_and_nobody_else_does():
    before = AUTOGROUP.read_text().split()[-1]
    assert told(leads=True)[-1] == "7"
    assert told(leads=False)[-1] == before
    assert AUTOGROUP.read_text().split()[-1] == before
