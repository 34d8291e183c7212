"""Slots of a timetable as reservations: the decided jobs start on the second, nobody else in them."""

import time
from datetime import UTC, datetime

import pytest

from allocator_agent.configuration import Configuration
from allocator_agent.model import Rendering
from allocator_agent.slurm.commands import Commands
from allocator_agent.slurm.scheduler import Slurm
from tests.slurm.conftest import eventually


def test_a_slots_jobs_start_on_the_second_and_nobody_elses(quiet, monkeypatch):
    for name, value in quiet.environment.items():
        monkeypatch.setenv(name, value)
    slurm = Slurm(
        Configuration(url="", pool="lab", key="", name="x", scheduler="slurm"), Commands()
    )
    quiet.add_accounts("physics", "biology")
    quiet.run("sacctmgr", "-i", "modify", "account", "physics", "set", "GrpTRES=cpu=0")
    jobs = quiet.submit("physics", "--partition=small", "--time=1", seconds=20, count=8)
    start = int(time.time()) + 9
    decision = Rendering(
        "run",
        1,
        [],
        [
            {"kind": "account", "tenant": "physics", "fairshare": 1, "limits": {"cpu": 6}},
            reservation("physics", "small", start, start + 120, cores=6),
        ],
    )
    plan = slurm.plan(decision, slurm.observe(), datetime.now(UTC))
    assert slurm.apply(plan) == []
    again = slurm.plan(decision, slurm.observe(), datetime.now(UTC))
    assert len(again) == 0, again.shown()
    assert quiet.jobs("RUNNING") == {}
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 6})
    delays = [begun - start for begun in starts(quiet, jobs)]
    print(f"\nstarts after the slot's begin, in seconds: {sorted(delays)}")
    assert len(delays) == 6
    assert all(0 <= delay <= 2 for delay in delays)
    with pytest.raises(AssertionError, match="denied"):
        quiet.submit("biology", "--partition=small", f"--reservation={name_of('physics')}")
    # A decision without it takes back what has not begun only.
    later = Rendering("run", 2, [], [reservation("biology", "small", start + 300, start + 400, 6)])
    assert slurm.apply(slurm.plan(later, slurm.observe(), datetime.now(UTC))) == []
    plan = slurm.plan(Rendering("run", 3, [], []), slurm.observe(), datetime.now(UTC))
    (change,) = [each for each in plan.shown() if each.name.startswith("reservation")]
    assert (change.sign, change.name) == ("-", f"reservation {name_of('biology')}")
    values = {value.name: (value.before, value.after) for value in change.values}
    assert values["cores"] == ("6", "")


def reservation(tenant, partition, start, end, cores):
    begin, finish = (datetime.fromtimestamp(second, UTC).isoformat() for second in (start, end))
    return {
        "kind": "reservation",
        "name": name_of(tenant),
        "tenant": tenant,
        "partition": partition,
        "start": begin,
        "end": finish,
        "cores": cores,
        "limits": {"cpu": cores},
    }


def name_of(tenant):
    """A name as renderings have them: the pool's, and 12 digits."""
    return f"allocator-lab-{tenant.encode().hex()[:12]}"


def starts(slurm, jobs):
    """When the jobs that run began, in seconds since 1970."""
    named = ",".join(map(str, jobs))
    told = slurm.run("squeue", "--noheader", f"--jobs={named}", "--states=R", "--format=%S")
    return [
        int(datetime.fromisoformat(line).replace(tzinfo=UTC).timestamp()) for line in told.split()
    ]
