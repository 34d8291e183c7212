"""Effective quotas beside Kueue's own division, which is in proportion to specs and ignores demand."""

import random

import pytest

from tests.examples import thorough
from tests.references.kueue import proportional
from tests.unit.enforcement.test_targets import render

QUEUES = 200
FLAVORS = ("big", "small")


def cluster(seed):
    """Return a pool document of 200 queues, and for each its quota in proportion and its demand.

    Pods have one CPU, so a quota of n CPUs admits n of them.
    """
    draw = random.Random(seed)
    sizes = [(draw.choice(FLAVORS), draw.choice([4, 8, 16])) for _ in range(draw.randint(10, 80))]
    names = [f"q{number:03}" for number in range(QUEUES)]
    nominal = {name: draw.randint(1, 20) for name in names}
    cpus = {flavor: sum(size for each, size in sizes if each == flavor) for flavor in FLAVORS}
    by_flavor = [proportional(nominal, cpus[flavor]) for flavor in FLAVORS]
    quota = {name: sum(each[name] for each in by_flavor) for name in names}
    wanted = {
        name: draw.choice([0, draw.randint(0, quota[name]), draw.randint(0, 4 * quota[name] + 2)])
        for name in names
    }
    document = {
        "resources": [{"name": "cpu", "unit": ""}, {"name": "memory", "unit": "GiB"}],
        "servers": [
            {
                "name": f"n{number}",
                "capacity": {"cpu": size, "memory": 2 * size},
                "labels": {"partition": flavor},
                "count": 1,
            }
            for number, (flavor, size) in enumerate(sizes)
        ],
        "tenants": [{"name": name, "weight": nominal[name]} for name in names],
        "workloads": [
            {"tenant": name, "name": "w", "demand": {"cpu": 1, "memory": 1}, "tasks": tasks}
            for name, tasks in wanted.items()
            if tasks
        ],
        "policy": {"name": "drfh", "mode": "indivisible", "options": {}},
        "weights": "explicit",
    }
    return document, quota, wanted, cpus


@pytest.mark.parametrize("seed", range(200 if thorough() else 20))
def test_no_less_is_used_than_in_proportion_and_more_where_some_want_less(seed):
    document, quota, wanted, cpus = cluster(seed)
    rendering = render(document, "kueue", quota="effective")
    given = dict.fromkeys(wanted, 0)
    totals = dict.fromkeys(FLAVORS, 0)
    for item in rendering.objects:
        if item["kind"] == "ClusterQueue":
            (group,) = item["status"]["effectiveQuotas"]["resourceGroups"]
            for flavor in group["flavors"]:
                given[item["metadata"]["name"]] += int(flavor["resources"][0]["nominalQuota"])
                totals[flavor["name"]] += int(flavor["resources"][0]["nominalQuota"])
    assert all(totals[flavor] <= cpus[flavor] for flavor in FLAVORS)
    ours = {name: min(wanted[name], given[name]) for name in wanted}
    theirs = {name: min(wanted[name], quota[name]) for name in wanted}
    assert sum(ours.values()) >= sum(theirs.values())
    some_want_less = any(wanted[name] < quota[name] for name in wanted)
    some_want_more = any(wanted[name] > quota[name] for name in wanted)
    if some_want_less and some_want_more:
        assert sum(ours.values()) > sum(theirs.values())
    total = sum(each["weight"] for each in document["tenants"])
    for each in document["tenants"]:
        part = each["weight"] * sum(cpus.values()) // total
        assert ours[each["name"]] >= min(wanted[each["name"]], part) - 1, each["name"]
