"""Answers of a scripted service, and `alloc` in a process of its own."""

import os
import signal
import subprocess
import sys

from launcher.folders import PROJECT
from tests.client.test_transport import JSON, page

POOL = {
    "slug": "lab", "name": "Lab", "resources": [{"name": "cpu", "unit": "core"}, {"name": "gpu"}],
    "policy": {"name": "drfh", "mode": "divisible", "options": {}}, "generation": 12583,
    "timezone": "Europe/Berlin",
}  # fmt: skip
ROOT = (200, JSON, {"version": "1", "collections": {}})
POOLS, TENANTS = page([POOL], None, last=True), page([{"slug": "physics"}], None, last=True)
LOGIN = (ROOT, POOLS, TENANTS)


def decision(generation, run="r-1"):
    run = {
        "id": run, "policy": POOL["policy"], "effective_from": "2027-01-04T09:00:00+01:00",
        "effective_until": None, "summary": None,
    }  # fmt: skip
    return (200, JSON, {"pool": "lab", "generation": generation, "run": run, "slot": None})


def row(name, tasks):
    return {
        "tenant": "physics", "workload": {"id": f"id-{name}", "name": name}, "tasks": tasks,
        "resources": {"cpu": tasks / 5}, "dominant_share": 5 / 7, "limited_by": "resource:cpu",
    }  # fmt: skip


def process(*arguments, **options):
    """`alloc` in a process of its own, which Ctrl-C ends though a shell's background job ignores it."""
    return subprocess.Popen(
        [sys.executable, "-m", "allocator_client.cli.main", *arguments],
        env={**os.environ, "PYTHONPATH": str(PROJECT / "client"), "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )
