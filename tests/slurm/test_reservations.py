"""Slots of a timetable as reservations: the decided jobs start on the second, nobody else in them."""

import time
from datetime import UTC, datetime

import pytest

from allocator_agent.configuration import Configuration
from allocator_agent.model import Rendering
from allocator_agent.slurm.commands import Commands
from allocator_agent.slurm.scheduler import Slurm
from tests.examples import thorough
from tests.slurm.cluster import Node
from tests.slurm.conftest import Agent, cluster, eventually, pool_for

# The thesis' example: 15 CPUs and 15 of memory, of which two tenants use what the other has less of.
TURNS = (Node("only", cpus=15, memory=15360, partition="all"),)
PERIOD = 240


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
    assert len(again) == 0, again.lines()
    assert quiet.jobs("RUNNING") == {}
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 6})
    delays = [begun - start for begun in starts(quiet, jobs)]
    print(f"\nstarts after the slot's begin, in seconds: {sorted(delays)}")
    assert len(delays) == 6
    assert all(0 <= delay <= 2 for delay in delays)
    with pytest.raises(AssertionError, match="denied"):
        quiet.submit("biology", "--partition=small", "--reservation=allocator-lab-physics")
    # A decision without it takes back what has not begun only.
    later = Rendering("run", 2, [], [reservation("biology", "small", start + 300, start + 400, 6)])
    assert slurm.apply(slurm.plan(later, slurm.observe(), datetime.now(UTC))) == []
    plan = slurm.plan(Rendering("run", 3, [], []), slurm.observe(), datetime.now(UTC))
    assert [line for line in plan.lines() if "biology" in line] == [
        "  reservation allocator-lab-biology: delete"
    ]


@pytest.mark.skipif(not thorough(), reason="takes a period of minutes: ask for it with --thorough")
def test_a_time_sharing_pools_slots_are_met(operator, service, agent_key, prefix, tmp_path):
    with cluster(prefix, TURNS) as slurm:
        agent = Agent(tmp_path, slurm, service.url, agent_key, "time-sharing")
        policy = {"name": "tda", "options": {"period_seconds": PERIOD}}
        pool = pool_for(operator, agent, policy=policy)
        slurm.add_accounts("wide", "tall")
        jobs = {
            "wide": ("--cpus-per-task=5", "--mem=2048"),
            "tall": ("--cpus-per-task=3", "--mem=3584"),
        }
        slurm.run("sacctmgr", "-i", "modify", "account", "wide", "tall", "set", "GrpTRES=cpu=0")
        for account, shape in jobs.items():
            slurm.submit(account, *shape, "--time=1", seconds=25, count=40)
        agent.run("--once", expect=None)
        running = agent.start("--every", "5s", log=tmp_path / "agent.log")
        decision = eventually(lambda: operator.request("GET", f"{pool}/decision/").body)
        time.sleep(1.6 * PERIOD)
        running.terminate()
        running.wait()
        wanted = operator.get(f"{pool}/decision/renderings/slurm/").body["objects"]
        slots = [item for item in wanted if item["kind"] == "reservation"]
        print((tmp_path / "agent.log").read_text()[-3000:], decision["slot"], slots)
        told = slurm.run("sacct", "-aXDPn", "-S", "now-1hour", "-o", "Account,Start,Reservation")
        print(told)
        by_slot = {}
        for line in told.splitlines():
            account, begun, name = line.split("|")
            if name and begun[0].isdigit():
                by_slot.setdefault((account, name), []).append(begun)
        assert by_slot


def reservation(tenant, partition, start, end, cores):
    begin, finish = (datetime.fromtimestamp(second, UTC).isoformat() for second in (start, end))
    return {
        "kind": "reservation",
        "name": f"allocator-lab-{tenant}",
        "tenant": tenant,
        "partition": partition,
        "start": begin,
        "end": finish,
        "cores": cores,
        "limits": {"cpu": cores},
    }


def starts(slurm, jobs):
    """When the jobs that run began, in seconds since 1970."""
    named = ",".join(map(str, jobs))
    told = slurm.run("squeue", "--noheader", f"--jobs={named}", "--states=R", "--format=%S")
    return [
        int(datetime.fromisoformat(line).replace(tzinfo=UTC).timestamp()) for line in told.split()
    ]
