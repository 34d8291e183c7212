"""A thousand accounts: how long the first load takes, a round that changes 50, one that changes none."""

import os
import re

from tests.examples import long
from tests.slurm.conftest import pool_for

ACCOUNTS = 1000
CHANGED = 50

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
