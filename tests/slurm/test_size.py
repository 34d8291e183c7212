"""A thousand accounts, and ten thousand jobs that wait: how long rounds take."""

import os
import re

from tests.examples import long
from tests.slurm.conftest import UNCHANGED, decided_tasks, eventually, pool_for

ACCOUNTS = 1000
CHANGED = 50
WAITING = 10_000

pytestmark = long


def test_a_thousand_accounts(operator, service, agent, quiet):
    pool = pool_for(operator, agent)
    agent.configure(url=service.url, service="timeout = 60")
    names = [f"group-{number:04}" for number in range(ACCOUNTS)]
    quiet.add_accounts(*names)
    first = steps(agent.run("--once"))
    report("first load", first)
    assert set(quiet.limits().values()) == {"cpu=0,mem=0"}
    assert first["apply"] <= 20

    # 50 accounts get something, all different: a workload each, submitted by the operator.
    rows = [
        {"tenant": name, "name": "own", "demand": {"cpu": "0.2", "memory": number + 1}, "tasks": 1}
        for number, name in enumerate(names[:CHANGED])
    ]
    operator.post(f"{pool}/workloads/", rows)
    some = steps(agent.run("--once"))
    report(f"{CHANGED} change", some)
    assert some["changes"] == CHANGED
    assert some["apply"] + some["plan"] <= 10

    before = writes(quiet)
    none = steps(agent.run("--once", "--verbose"))
    report("nothing changes", none)
    assert none["changes"] == 0
    # 2 s where nothing else is at work; the load is printed with the times.
    assert sum(seconds for step, seconds in none.items() if step != "changes") <= 10
    assert writes(quiet) == before


def test_ten_thousand_jobs_that_wait(operator, service, agent, quiet):
    """All of them are demand, and come under limits by partition when these are turned on."""
    pool = pool_for(operator, agent)
    agent.configure(url=service.url, service="timeout = 60")
    accounts = ("biology", "physics")
    quiet.add_accounts(*accounts)
    agent.run("--once")
    for account in accounts:
        quiet.submit(account, "--partition=small", f"--array=1-{WAITING // len(accounts)}")
    report(f"{WAITING} wait", steps(agent.run("--once")))
    asked = {row["tenant"]: row["tasks"] for row in operator.pages(f"{pool}/workloads/")}
    assert asked == dict.fromkeys(accounts, WAITING // len(accounts))
    half = dict.fromkeys(accounts, 6)
    assert decided_tasks(operator, pool) == half
    eventually(lambda: quiet.jobs("RUNNING") == half, seconds=60)
    report("they still wait", steps(agent.run("--once", "--verbose")))
    assert UNCHANGED in agent.run("--dry-run")

    agent.configure(url=service.url, service="timeout = 60", slurm="classes = yes")
    report("by partition", steps(agent.run("--once")))
    report("and after it", steps(agent.run("--once", "--verbose")))
    assert UNCHANGED in agent.run("--dry-run")
    quiet.run("scancel", "--state=RUNNING", *(f"--account={name}" for name in accounts[:1]))
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == half, seconds=60)


def steps(told):
    """Seconds by step, and the number of changes, as a round logs them."""
    (line,) = re.findall(r"generation \d+: .*", told)
    found = {name: float(number) for name, number in re.findall(r"(\w+) ([\d.]+) s", line)}
    counts = re.findall(r"(\d+) to (?:add|change|remove)", line)
    return {**found, "changes": sum(map(int, counts))}


def report(name, told):
    load = os.getloadavg()[0]
    print(
        f"\n{name:16}load {load:.1f}: "
        + ", ".join(f"{step} {value:g}" for step, value in told.items())
    )


def writes(cluster):
    """How many transactions Slurm's accounting has recorded."""
    return len(cluster.run("sacctmgr", "-nP", "list", "transactions").splitlines())
