"""Slots of a timetable as reservations: the decided jobs start on the second, nobody else in them."""

import time
from datetime import UTC, datetime

import pytest

from allocator_agent.configuration import Configuration
from allocator_agent.model import Rendering
from allocator_agent.slurm.commands import Commands
from allocator_agent.slurm.scheduler import Slurm
from tests.examples import long
from tests.slurm.conftest import UNCHANGED, eventually, pool_for


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
    found = {each.name: each for each in plan.shown() if each.name.startswith("reservation")}
    assert {name: change.sign for name, change in found.items()} == {
        f"reservation {name_of('biology')}": "-",
        f"reservation {name_of('physics')}": "-",
    }
    values = {
        value.name: (value.before, value.after)
        for value in found[f"reservation {name_of('biology')}"].values
    }
    assert values["cores"] == ("6", "")
    # What runs in a reservation that is no longer decided goes on outside of it.
    assert slurm.apply(plan) == []
    assert reserved(quiet) == {}
    assert quiet.jobs("RUNNING") == {"physics": 6}


def test_demand_that_changes_within_a_slot_of_the_whole_period_is_run(operator, agent, quiet):
    pool = pool_for(operator, agent, policy={"name": "tda"})
    quiet.add_accounts("physics", "biology")
    # None of the partitions has every node.
    quiet.submit("physics", "--partition=small", "--time=5", count=4)
    quiet.submit("biology", "--partition=small", "--time=5", count=4)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 4, "biology": 4})
    first = reserved(quiet)
    assert sum(cores for _, _, cores in first.values()) == 2 * 8  # this period and the next

    # One account asks for more, also elsewhere; the other one's reservation is kept.
    quiet.submit("physics", "--partition=small", "--time=5", count=4)
    quiet.submit("physics", "--partition=big", "--time=5", count=4)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 12, "biology": 4})
    second = reserved(quiet)
    in_force = {row for name, row in second.items() if name not in coming(quiet)}
    assert in_force == {("biology", "small", 4), ("physics", "small", 8), ("physics", "big", 4)}
    kept = {name for name, (account, _, _) in first.items() if account == "biology"}
    assert kept <= second.keys()
    assert {first[name] for name in kept} == {second[name] for name in kept}

    agent.run("--once")
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED
    assert reserved(quiet) == second
    state = operator.get(f"{pool}/enforcement/").body
    assert [row["drift"] for row in state["tenants"]] == [{}, {}]


@long
def test_a_job_in_a_reservation_of_the_site_stays_there(quiet, monkeypatch):
    for name, value in quiet.environment.items():
        monkeypatch.setenv(name, value)
    configuration = Configuration(url="", pool="lab", key="", name="x", scheduler="slurm")
    slurm = Slurm(configuration, Commands())
    quiet.add_accounts("physics")
    quiet.run(
        *("scontrol", "create", "reservation", "ReservationName=course", "StartTime=now+1hour"),
        *("Duration=60", "Accounts=physics", "Nodes=mem-1"),
    )
    theirs = quiet.submit("physics", "--partition=big", "--reservation=course")
    ours = quiet.submit("physics", "--partition=big", "--hold")
    quiet.run("scontrol", "release", str(ours[0]))
    start = int(time.time()) + 60
    wanted = [reservation("physics", None, start, start + 120, cores=4)]
    slurm.apply(slurm.plan(Rendering("run", 1, [], wanted), slurm.observe(), datetime.now(UTC)))
    told = quiet.run("squeue", "--noheader", f"--jobs={theirs[0]}", "--format=%v")
    assert told.strip() == "course"


def reserved(slurm):
    """Return the account, partition and cores of each reservation."""
    found = {}
    for line in slurm.run("scontrol", "--oneliner", "show", "reservation").splitlines():
        fields = dict(item.split("=", 1) for item in line.split() if "=" in item)
        if "ReservationName" in fields:
            found[fields["ReservationName"]] = (
                fields["Accounts"],
                fields["PartitionName"],
                int(fields["CoreCnt"]),
            )
    return found


def coming(slurm):
    """Return the reservations that have not begun."""
    lines = slurm.run("scontrol", "--oneliner", "show", "reservation").splitlines()
    return {line.split()[0].partition("=")[2] for line in lines if "State=INACTIVE" in line}


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
