"""Jobs queued by two accounts, to a decision, to limits, to the jobs that run, to the ledger."""

import re
from datetime import datetime
from decimal import Decimal

from tests.slurm.conftest import decided_tasks, eventually, pool_for

SMALL = ("--partition=big", "--mem=1024")
LARGE = ("--partition=big", "--mem=2048")
PRICES = [{"resource": "cpu", "pool": "3600", "outside": "3600"}]


def test_the_whole_loop_from_queued_jobs_to_a_statement(operator, agent, quiet):
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics", "biology")
    agent.run("--once")
    assert quiet.limits() == {"physics": "cpu=0,mem=0", "biology": "cpu=0,mem=0"}

    jobs = quiet.submit("physics", *SMALL, seconds=5, count=4)
    jobs += quiet.submit("biology", *LARGE, seconds=5, count=4)
    quiet.settled(seconds=4)
    assert quiet.jobs("RUNNING") == {}  # nobody runs what nobody decided
    agent.run("--once")
    decided = decided_tasks(operator, pool)
    assert decided == {"physics": 2, "biology": 2}
    assert quiet.limits() == {"physics": "cpu=2,mem=2G", "biology": "cpu=2,mem=4G"}
    eventually(lambda: quiet.jobs("RUNNING") == decided)
    quiet.settled(seconds=4)
    assert quiet.jobs("RUNNING") == decided

    agent.run("--once")
    state = operator.get(f"{pool}/enforcement/").body
    assert [(row["tenant"], row["enforced"], row["used"]) for row in state["tenants"]] == [
        ("biology", {"cpu": "2", "memory": "4096"}, {"cpu": "2", "memory": "4096"}),
        ("physics", {"cpu": "2", "memory": "2048"}, {"cpu": "2", "memory": "2048"}),
    ]
    assert [row["drift"] for row in state["tenants"]] == [{}, {}]

    eventually(lambda: not quiet.run("squeue", "--noheader"), seconds=60)
    ran = eventually(lambda: len(ran := quiet.ended(jobs)) == len(jobs) and ran)
    agent.run("--once")
    agent.run("--once")  # windows overlap: what was posted is not posted again
    eventually(lambda: set(posted(operator, agent.pool, jobs)) == ran)
    assert len(posted(operator, agent.pool, jobs)) == len(jobs)
    assert operator.pages(f"{pool}/workloads/") == []
    assert len(operator.pages(f"{pool}/workloads/?state=withdrawn")) == 4  # two admitted members

    plan = {"pool": agent.pool, "name": "plan", "from": "2026-01-01T00:00:00Z", "rates": PRICES}
    written = operator.post("/api/v1/price-plans/", plan).body
    operator.post(f"/api/v1/price-plans/{written['id']}/publish/", {})
    month = next(iter(ran))[2][:7]
    statement = operator.get(f"{pool}/statements/{month}/physics/").body
    every = posted(operator, agent.pool, range(10**6))
    seconds = sum(seconds_of(row) for row in every if row[0] == "physics")
    assert Decimal(statement["totals"]["billed"]) == seconds


def test_requeue_takes_the_youngest_back_and_both_runs_are_usage(operator, agent, quiet):
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics", "biology")
    jobs = quiet.submit("physics", *SMALL, count=4)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 4})
    quiet.submit("biology", *SMALL, count=4)
    agent.run("--once")  # without reclaim nothing that runs is stopped
    assert quiet.jobs("RUNNING") == {"physics": 4}
    assert decided_tasks(operator, pool) == {"physics": 2, "biology": 2}

    shown = agent.run("--dry-run", "--reclaim", "requeue")
    stopped = [int(job) for job in re.findall(r"~ job (\d+) of physics\n +requeued", shown)]
    stay = [job for job in jobs if job not in stopped]
    assert len(stopped) == 2
    assert min(started(quiet, job) for job in stopped) >= max(started(quiet, job) for job in stay)
    assert quiet.jobs("RUNNING") == {"physics": 4}  # a dry run only shows
    agent.run("--once", "--reclaim", "requeue")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 2, "biology": 2})
    agent.run("--once", "--reclaim", "requeue")
    quiet.settled(seconds=4)
    assert quiet.jobs("RUNNING") == {"physics": 2, "biology": 2}  # and never more than needed

    def both_are_posted():  # Slurm tells its accounting of an end a little later
        agent.run("--once", "--reclaim", "requeue")
        told = {row[1].partition("@")[0] for row in posted(operator, agent.pool, jobs)}
        return told == {str(job) for job in stopped}

    eventually(both_are_posted, seconds=30)


def test_a_dry_run_shows_what_a_person_wants_to_read(operator, agent, quiet):
    pool_for(operator, agent)
    quiet.add_accounts("physics", "biology")
    agent.run("--once")
    quiet.run("sacctmgr", "-i", "modify", "account", "physics", "set", "GrpTRES=cpu=7,mem=-1")
    quiet.submit("biology", "--partition=big,small", count=2)
    before = quiet.limits()
    shown = agent.run("--dry-run").splitlines()
    assert re.fullmatch(rf"pool {agent.pool}, generation \d+", shown[0])
    assert shown[1:] == [
        "service:",
        "  + workload slurm-lab/any/cpu=1,memory=256Mi of biology",
        "slurm:",
        "  ~ account physics",
        "      cpu 7 -> 0",
        "      mem unlimited -> 0",
        "To the service: 1 to add, 0 to change, 0 to remove.",
        "Plan: 0 to add, 1 to change, 0 to remove.",
    ]
    assert quiet.limits() == before
    workloads = operator.pages(f"/api/v1/pools/{agent.pool}/workloads/")
    assert [row["name"] for row in workloads] == ["slurm-lab/admission"] * 2


def test_a_node_that_drains_is_no_capacity_and_comes_back(operator, agent, quiet):
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics")
    agent.run("--once")
    states = {row["name"]: row["state"] for row in operator.pages(f"{pool}/servers/")}
    assert states == {"mem-1": "active", "cpu-1": "active", "cpu-2": "active"}
    labels = {row["name"]: row["labels"] for row in operator.pages(f"{pool}/servers/")}
    assert labels["cpu-1"] == {
        "partition": "small",
        "feature-fast": "true",
        "allocator-agent": "slurm-lab",
    }
    quiet.submit("physics", "--partition=small", count=13)
    quiet.run("scontrol", "update", "NodeName=cpu-2", "State=DRAIN", "Reason=test")
    try:
        agent.run("--once")
        assert decided_tasks(operator, pool) == {"physics": 6}
        assert quiet.limits() == {"physics": "cpu=6,mem=1.50G"}
    finally:
        quiet.run("scontrol", "update", "NodeName=cpu-2", "State=RESUME")
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"physics": 12}


def posted(operator, pool, jobs):
    """The usage of CPUs in the ledger by these jobs: tenant, identity, start, end."""
    entries = operator.pages(f"/api/v1/ledger-entries/?pool={pool}&kind=usage")
    return [
        (row["tenant"], row["event_id"], row["start"], row["end"])
        for row in entries
        if row["resource"] == "cpu" and int(row["event_id"].partition("@")[0]) in jobs
    ]


def seconds_of(row):
    begin, end = map(datetime.fromisoformat, row[2:])
    return int((end - begin).total_seconds())


def started(cluster, job):
    return cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%S")
