"""A thousand users in fifty accounts: each gets what the exact tree says, within one task."""

import os
import random
import re
import time
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from tests.examples import long
from tests.slurm.cluster import Cluster, Node, running_cluster
from tests.slurm.conftest import UNCHANGED, pool_for
from tests.slurm.test_people import USERS, limits
from tests.slurm.test_size import report, steps

FACULTIES, ACCOUNTS, PEOPLE = 5, 10, 20  # accounts of each faculty, users of each account
NODES = tuple(Node(f"n-{number}", cpus=500, memory=500_000, partition="all") for number in range(4))
CAPACITY = sum(node.cpus for node in NODES)

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
    began = time.monotonic()
    for accounts in asked.values():
        for account, users in accounts.items():
            for user, tasks in users.items():
                if tasks:
                    # They begin in nine minutes, which is demand already.
                    later = ("--begin=now+540", f"--array=1-{tasks}", f"--uid={user}")
                    quiet.submit(account, *later)
    print(f"jobs submitted in {time.monotonic() - began:.0f} s")
    second = steps(agent.run("--once"))
    report("all want", second)
    exact = exact_tree(asked, weights)
    found = {user: cpus for (_, user), cpus in limits(quiet).items() if user}
    assert found.keys() == exact.keys()
    farthest = max(abs(found[user] - exact[user]) for user in exact)
    print(f"{len(exact)} users, {sum(found.values())} of {CAPACITY} CPUs;"
          f" at most {float(farthest):.3f} tasks from the exact tree")  # fmt: skip
    assert farthest <= 1
    assert sum(found.values()) <= CAPACITY
    sums = limits(quiet)
    for accounts in asked.values():
        for account, users in accounts.items():
            assert sums[account, ""] == sum(found[user] for user in users)
    third = agent.run("--once", "--verbose")
    report("nothing changes", steps(third))
    assert re.search(r"0 to add, 0 to change", third)
    assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED


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
