"""Kueue's effective quotas at length: the agent between the service and a Kubernetes that fails.

`ALLOCATOR_DECISIONS` is the number of random decisions; without it 500 with `--thorough`, else 10.
"""

import copy
import os
import random
from fractions import Fraction
from functools import partial
from math import floor

import pytest

from launcher.processes import stop
from tests.examples import long, thorough
from tests.live.kueue_site import QUEUES, KueueAgent, Site, pool_for, until, wanted_tasks
from tests.references.kueue import proportional

DECISIONS = int(os.environ.get("ALLOCATOR_DECISIONS", 500 if thorough() else 10))
FLAVORS = ("big", "small")
FAULTS = ("kill", "conflicts", "restart", "cut", "")


@pytest.fixture
def site():
    running = Site()
    yield running
    running.server.stop()


def test_random_decisions_stay_within_capacity_and_leave_git_as_it_is(
    service, operator, site, tmp_path
):
    """Conflicts, cut watches, an API server that restarts, and an agent killed between two writes."""
    chance = random.Random(20261126)
    teams = [f"team-{number}" for number in range(6)]
    for flavor, cpus in (("big", 16), ("small", 8)):
        for number in range(2):
            site.add_node(f"{flavor}-{number}", flavor, cpus)
    pool_for(operator, "random-decisions", {team: chance.randint(1, 5) for team in teams})
    for team in teams:
        site.add_queue(team, {"big": 5, "small": 2})
    assert site.excess == []
    git = site.in_git()
    agent = KueueAgent(tmp_path, site, service, "random-decisions")
    agent.start("0.1s")
    seen = set()
    try:
        until(site.is_orchestrated, seconds=60)
        asked: dict[str, int] = {}
        for number in range(DECISIONS):
            kind = FAULTS[number] if number < len(FAULTS) else chance.choice([*FAULTS, "", ""])
            if kind == "conflicts":
                site.server.before_put = [counts(site, chance)] * chance.randint(1, 8)
            elif kind == "kill":
                writes = chance.randint(0, 3) if number else 1
                site.server.before_put = [*[lambda: None] * writes, agent.kill]
            for team in chance.sample(teams, chance.randint(1, 4)):
                asked[team] = chance.choice([0, chance.randint(1, 12), chance.randint(1, 60)])
                site.ask(team, asked[team])
            if kind == "cut":
                site.server.cut_watches()
            elif kind == "restart":
                site.server.restart(seconds=chance.uniform(0, 0.3))
            elif kind == "kill" and chance.random() < 0.3:
                agent.kill()
            # Whatever anybody wants is given while there is any.
            until(partial(obeyed, operator, agent, site, asked), seconds=60)
            decided = site.cpus()
            assert all(decided[team] <= asked.get(team, 0) for team in teams), (number, kind)
            seen.add(tuple(sorted(decided.items())))
        assert site.in_git() == git
        assert site.excess == []
        print(
            f"{DECISIONS} decisions, {len(seen)} different; {site.sums} sums within capacity;"
            f" {agent.kills} kills; {len(site.server.writes)} writes"
        )
        assert {path.rpartition("/")[2] for _, path, _ in site.server.writes} == {"status"}
    finally:
        stop(agent.process, patience_seconds=10)


def is_imported(operator, asked):
    """Return whether the service has the demand, which may be newer than the decision in force."""
    return wanted_tasks(operator, "random-decisions") == {
        team: tasks for team, tasks in asked.items() if tasks
    }


def test_two_agents_of_a_pool_come_to_the_same_quotas(service, operator, site, tmp_path):
    """One is meant to run. Two do not wait for each other, and still do not undo each other's work."""
    chance = random.Random(2)
    teams = [f"twice-{number}" for number in range(4)]
    site.add_node("n1", "big", 24)
    pool_for(operator, "random-decisions-twice", dict.fromkeys(teams, 1))
    for team in teams:
        site.add_queue(team, {"big": 6})
    git = site.in_git()
    agent = KueueAgent(tmp_path, site, service, "random-decisions-twice")
    processes = [agent.start("0.5s"), agent.start("0.7s")]
    try:
        for _ in range(6 if thorough() else 3):
            asked = {team: chance.randint(0, 20) for team in teams}
            for team, tasks in asked.items():
                site.ask(team, tasks)
            until(partial(divided, site, asked, 24), seconds=60)
        assert site.in_git() == git
    finally:
        for process in processes:
            stop(process, patience_seconds=10)


def divided(site, asked, capacity):
    """Return whether all that is wanted, or all that there is, is given to those who want it."""
    cpus = site.cpus()
    fits = all(cpus[team] <= tasks for team, tasks in asked.items())
    return (
        site.is_orchestrated() and fits and sum(cpus.values()) == min(sum(asked.values()), capacity)
    )


def obeyed(operator, agent, site, asked):
    """Return whether Kueue has as much as is wanted, as the decision in force divides it."""
    agent.revive()
    if sum(site.cpus().values()) != min(sum(asked.values()), 48) or not is_imported(
        operator, asked
    ):
        return False
    # Two decisions can have the same sum: the older one is not what was asked for.
    pool = operator.get("/api/v1/pools/random-decisions/")
    decision = operator.get("/api/v1/pools/random-decisions/decision/").body
    if decision["generation"] < int(pool.headers["Pool-Generation"]):
        return False
    path = "/api/v1/pools/random-decisions/decision/renderings/kueue/?quota=effective"
    tenants = operator.get(path).body["tenants"]
    return site.cpus() == {row["tenant"]: row["rendered"]["cpu"] // 1000 for row in tenants}


def counts(site, chance):
    """Return a write of Kueue itself, which counts workloads in the status of some queue."""

    def write():
        name = chance.choice([key[2] for key in site.server.objects if key[0] == QUEUES])
        item = copy.deepcopy(site.server.objects[QUEUES, "", name])
        item.setdefault("status", {})["pendingWorkloads"] = chance.randint(0, 99)
        site.server.put(QUEUES, item)

    return write


def test_a_node_that_is_gone_gives_new_quotas_within_five_seconds(
    service, operator, site, tmp_path
):
    """At the usual interval of 15 seconds: the watch of nodes begins the round."""
    teams = ["gone-a", "gone-b"]
    for number in range(4):
        site.add_node(f"n{number}", "big", 8)
    pool_for(operator, "node-gone", dict.fromkeys(teams, 1))
    for team in teams:
        site.add_queue(team, {"big": 16})
        site.ask(team, 40)
    process = KueueAgent(tmp_path, site, service, "node-gone").start("15s")
    try:
        until(lambda: site.is_orchestrated() and sum(site.cpus().values()) == 32, seconds=60)
        took = []
        for number, left in ((0, 24), (1, 16), (2, 8)):
            site.server.delete("/api/v1/nodes", "", f"n{number}")
            took.append(until(lambda left=left: sum(site.cpus().values()) == left, seconds=5))
        print("new quotas after a node is gone:", ", ".join(f"{each:.2f} s" for each in took))
        assert max(took) < 5
        assert set(site.cpus().values()) == {4}
    finally:
        stop(process, patience_seconds=10)


@long
@pytest.mark.parametrize("seed", range(5))
def test_two_hundred_queues_use_no_less_than_in_proportion_to_their_spec(
    service, operator, site, tmp_path, seed
):
    """Kueue's own distribution gives each queue its proportion of the nodes, wanted or not."""
    chance = random.Random(seed)
    teams = [f"q{seed}-{number:03}" for number in range(200)]
    cpus = dict.fromkeys(FLAVORS, 0)
    for number in range(60):
        flavor = chance.choice(FLAVORS)
        size = chance.choice([4, 8, 16])
        cpus[flavor] += size
        site.add_node(f"n{number}", flavor, size)
    nominal = {team: chance.randint(1, 20) for team in teams}
    spec = {flavor: proportional(nominal, cpus[flavor]) for flavor in FLAVORS}
    quota = {team: sum(spec[flavor][team] for flavor in FLAVORS) for team in teams}
    wanted = {
        team: chance.choice([0, chance.randint(0, quota[team]), chance.randint(0, 4 * quota[team])])
        for team in teams
    }
    pool = f"proportion-{seed}"
    pool_for(operator, pool, nominal)
    for team in teams:
        site.add_queue(team, {flavor: spec[flavor][team] for flavor in FLAVORS})
        site.ask(team, wanted[team])
    agent = KueueAgent(tmp_path, site, service, pool)
    process = agent.start("1s")
    try:
        least = min(sum(wanted.values()), sum(cpus.values()))
        until(lambda: site.is_orchestrated() and sum(site.cpus().values()) >= least, seconds=120)
    finally:
        stop(process, patience_seconds=10)
    assert site.excess == []
    ours = {team: min(wanted[team], given) for team, given in site.cpus().items()}
    theirs = {team: min(wanted[team], quota[team]) for team in teams}
    print(
        f"200 queues want {sum(wanted.values())} of {sum(cpus.values())} CPUs:"
        f" {sum(theirs.values())} used in proportion, {sum(ours.values())} as decided"
    )
    assert sum(ours.values()) >= sum(theirs.values())
    less = any(wanted[team] < quota[team] for team in teams)
    more = any(wanted[team] > quota[team] for team in teams)
    assert less
    assert more
    assert sum(ours.values()) > sum(theirs.values())
    # What is given on top comes from what others leave: nobody has less than its proportion.
    total = sum(nominal.values())
    for team in teams:
        part = floor(Fraction(nominal[team] * sum(cpus.values()), total))
        assert ours[team] >= min(wanted[team], part) - 1, team
