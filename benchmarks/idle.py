"""Processor time and memory of the service while it has nothing to do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psycopg

from benchmarks.http.service import Service
from benchmarks.measurement import Row

WEB_WORKERS = 2
GOAL_SECONDS, GOAL_GB = 2.0, 0.9


def measure(*, quick: bool = False) -> list[Row]:
    """Start every process, let them settle, and measure them for a time.

    Memory is the sum of their proportional set sizes: pages that processes share count once.
    """
    settling, measured = (20.0, 30.0) if quick else (90.0, 180.0)
    service = Service(WEB_WORKERS)
    try:
        database = _postmaster()
        time.sleep(settling)
        before = _used_seconds(service.pids), _used_seconds([database])
        time.sleep(measured)
        after = _used_seconds(service.pids), _used_seconds([database])
        gigabytes = sum(_proportional_bytes(pid) for pid in _with_children(service.pids)) / 1e9
        count = len(_with_children(service.pids))
    finally:
        service.stop()
    per_minute = 60 / measured
    ours, servers = ((end - begin) * per_minute for begin, end in zip(before, after, strict=True))
    sizes = f"{count} processes, {WEB_WORKERS} of them web workers"
    return [
        Row(
            name="idle service, processor time a minute",
            sizes=sizes,
            our_value=ours,
            peer="none: the goal",
            peer_value=GOAL_SECONDS,
            agreement=None,
            goal=1.0,
            notes=f"PostgreSQL beside it: {servers:.2f} s",
        ),
        Row(
            name="idle service, memory",
            sizes=sizes,
            our_value=gigabytes,
            peer="none: the goal",
            peer_value=GOAL_GB,
            agreement=None,
            goal=1.0,
            notes="without PostgreSQL and Redis",
            unit="GB",
        ),
    ]


def _postmaster() -> int:
    """Return the process of PostgreSQL that starts its sessions."""
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        return int(_statistics(connection.info.backend_pid)[1])


def _with_children(pids: Iterable[int]) -> list[int]:
    found = []
    for pid in pids:
        with suppress(OSError):  # it has ended meanwhile
            for thread in Path(f"/proc/{pid}/task").iterdir():
                found += _with_children(map(int, (thread / "children").read_text().split()))
            found.append(pid)
    return found


def _used_seconds(pids: Iterable[int]) -> float:
    """Return the processor time of processes and of all their children, also of those that ended."""
    ticks = sum(sum(map(int, _statistics(pid)[11:15])) for pid in _with_children(pids))
    return ticks / os.sysconf("SC_CLK_TCK")


def _statistics(pid: int) -> list[str]:
    # From the last parenthesis on, because the name before it may contain spaces.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _proportional_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    (kibibytes,) = (line.split()[1] for line in lines if line.startswith("Pss:"))
    return int(kibibytes) * 1024
