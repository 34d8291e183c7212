"""A thousand users in fifty accounts: each gets what the exact tree says, but for whole tasks."""

import os
import random
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from statistics import median

import pytest

from tests.examples import long
from tests.slurm.cluster import Cluster, Node, running_cluster
from tests.slurm.conftest import UNCHANGED, pool_for
from tests.slurm.test_people import USERS, limits
from tests.slurm.test_size import report, steps

FACULTIES, ACCOUNTS, PEOPLE = 5, 10, 20  # accounts of each faculty, users of each account
NODES = tuple(Node(f"n-{number}", cpus=500, memory=500_000, partition="all") for number in range(4))
CAPACITY = sum(node.cpus for node in NODES)
ROUNDS = int(os.environ.get("ALLOCATOR_ROUNDS", 100))
CHANGED = 20  # users in each round
POSTPONE_SECONDS = 240

pytestmark = [long, pytest.mark.skipif(os.geteuid() != 0, reason="only root submits for others")]
Asked = Mapping[str, Mapping[str, Mapping[str, int]]]  # faculty -> account -> user -> tasks


@pytest.fixture(scope="module")
def slurm(prefix: Path) -> Iterator[Cluster]:
    people = [f"u{number:04}" for number in range(FACULTIES * ACCOUNTS * PEOPLE)]
    with running_cluster(prefix, NODES, people=people) as running:
        yield running


def test_a_thousand_users_get_what_the_exact_tree_says(operator, service, agent, quiet):
    chance = random.Random(20261128)
    pool = pool_for(operator, agent)
    agent.configure(url=service.url, service="timeout = 60", slurm=USERS, register_tenants="no")
    names = iter(quiet.people)
    asked: dict[str, dict[str, dict[str, int]]] = {
        f"faculty-{f}": {
            f"lab-{f}-{a}": {next(names): chance.choice([0, 1, 2, 5, 12]) for _ in range(PEOPLE)}
            for a in range(ACCOUNTS)
        }
        for f in range(FACULTIES)
    }
    weights = {
        name: chance.randint(1, 4) for name in (*asked, *(a for f in asked for a in asked[f]))
    }
    rows = []
    for faculty, accounts in asked.items():
        quiet.run("sacctmgr", "-i", "add", "account", faculty)
        quiet.run("sacctmgr", "-i", "add", "account", ",".join(accounts), f"parent={faculty}")
        rows.append({"slug": faculty, "name": faculty, "weight": weights[faculty]})
        for account, users in accounts.items():
            quiet.run("sacctmgr", "-i", "add", "user", ",".join(users), f"account={account}")
            rows.append(
                {"slug": account, "name": account, "parent": faculty, "weight": weights[account]}
            )
    operator.post(f"{pool}/groups/", rows)
    first = steps(agent.run("--once"))
    report("first load", first)
    assert set(limits(quiet).values()) == {0}
    queue = Queue(quiet, asked)
    began = time.monotonic()
    queue.submit(
        user for accounts in asked.values() for users in accounts.values() for user in users
    )
    print(f"jobs submitted in {time.monotonic() - began:.0f} s")
    second = steps(agent.run("--once"))
    report("all want", second)
    farthest = [compare(quiet, asked, weights)]
    assert farthest[0] <= 1
    third = agent.run("--once", "--verbose")
    report("nothing changes", steps(third))
    assert re.search(r"0 to add, 0 to change", third)
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED

    took = []
    for _ in range(ROUNDS):
        queue.postpone()
        queue.submit(queue.change(chance))
        took.append(
            sum(value for name, value in steps(agent.run("--once")).items() if name != "changes")
        )
        farthest.append(compare(quiet, asked, weights))
    print(f"{ROUNDS} rounds, each with {CHANGED} users that change: median {median(took):.1f} s;"
          f" at most {float(max(farthest)):.3f} tasks from the exact tree")  # fmt: skip


class Queue:
    """What every user wants, as jobs that begin in nine minutes, which is demand already."""

    def __init__(self, cluster: Cluster, asked: dict[str, dict[str, dict[str, int]]]) -> None:
        self._cluster, self._asked = cluster, asked
        self._labs = {
            user: users
            for accounts in asked.values()
            for users in accounts.values()
            for user in users
        }
        self._accounts = {
            user: account
            for accounts in asked.values()
            for account, users in accounts.items()
            for user in users
        }
        self._jobs: dict[str, int] = {}
        self._postponed = time.monotonic()

    def submit(self, users: Iterable[str]) -> None:
        for user in users:
            if tasks := self._labs[user][user]:
                options = ("--begin=now+540", f"--array=1-{tasks}", f"--uid={user}")
                (self._jobs[user],) = self._cluster.submit(self._accounts[user], *options)

    def change(self, chance: random.Random) -> list[str]:
        """Draw what some users want from now on, take their jobs back, and return the users."""
        users = chance.sample(sorted(self._labs), CHANGED)
        for user in users:
            self._labs[user][user] = chance.choice([0, 1, 2, 5, 12])
        if gone := [str(self._jobs.pop(user)) for user in users if user in self._jobs]:
            self._cluster.run("scancel", *gone)
        return users

    def postpone(self) -> None:
        """Let jobs begin later, before they do: no test has room for two thousand of them."""
        if time.monotonic() - self._postponed > POSTPONE_SECONDS:
            jobs = ",".join(map(str, self._jobs.values()))
            self._cluster.run("scontrol", "update", f"JobId={jobs}", "StartTime=now+540")
            self._postponed = time.monotonic()


def compare(cluster: Cluster, asked: Asked, weights: Mapping[str, int]) -> Fraction:
    """Return how many tasks the limits of a user are from the exact tree, at most."""
    exact, present = exact_tree(asked, weights), limits(cluster)
    found = {user: cpus for (_, user), cpus in present.items() if user}
    assert found.keys() == exact.keys()
    assert sum(found.values()) <= CAPACITY
    for accounts in asked.values():
        for account, users in accounts.items():
            assert present[account, ""] == sum(found[user] for user in users)
    farthest: Fraction = max(abs(found[user] - exact[user]) for user in exact)
    # Faculties and labs are rounded to whole tasks, too, and a lab may have one user who wants more.
    assert farthest < 2
    return farthest


def exact_tree(asked: Asked, weights: Mapping[str, int]) -> dict[str, Fraction]:
    """Return the max-min fair tasks of each user, level by level."""
    totals = {f: {a: sum(users.values()) for a, users in asked[f].items()} for f in asked}
    found: dict[str, Fraction] = {}
    of_faculties = filled(Fraction(CAPACITY), {f: sum(totals[f].values()) for f in asked}, weights)
    for faculty, amount in of_faculties.items():
        for account, part in filled(amount, totals[faculty], weights).items():
            users = asked[faculty][account]
            found |= filled(part, users, dict.fromkeys(users, 1))
    return found


def filled(
    capacity: Fraction, wanted: Mapping[str, int], weights: Mapping[str, int]
) -> dict[str, Fraction]:
    """Divide a capacity in proportion to weights, nobody getting more than it wants."""
    found: dict[str, Fraction] = {}
    left, open_ = capacity, dict(wanted)
    while open_:
        level = left / sum(weights[name] for name in open_)
        full = [name for name, most in open_.items() if most <= level * weights[name]]
        if not full:
            return found | {name: level * weights[name] for name in open_}
        for name in full:
            found[name] = Fraction(open_.pop(name))
            left -= found[name]
    return found
