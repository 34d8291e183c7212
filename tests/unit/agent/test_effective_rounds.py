"""Random decisions, as the service renders them, as effective quotas; the sum fits at every instant.

`ALLOCATOR_DECISIONS` is their number; without it 500 with `--thorough`, else 60.
"""

import copy
import json
import os
import random
import threading
from collections import Counter
from contextlib import suppress

import pytest

from allocator_agent.cli import scheduler_of
from allocator_agent.errors import SchedulerAway
from allocator_agent.kubernetes.effective import in_force
from allocator_agent.kubernetes.quotas import limits_of
from allocator_agent.model import Rendering
from tests.examples import thorough
from tests.unit.agent.kubernetes_server import KubernetesServer
from tests.unit.agent.kueue_crds import kueue_schemas
from tests.unit.agent.test_effective import configuration, queue
from tests.unit.agent.test_kubernetes import NOW, QUEUES, until
from tests.unit.enforcement.test_targets import render

DECISIONS = int(os.environ.get("ALLOCATOR_DECISIONS", 500 if thorough() else 60))
CPUS = {"big": 40, "small": 24}
TEAMS = tuple(f"t{number}" for number in range(8))


class Killed(BaseException):
    """The agent ends here, as by SIGKILL: nothing of it runs on."""


@pytest.fixture
def server():
    running = KubernetesServer()
    running.schemas = kueue_schemas()
    yield running
    running.stop()


def decision(chance, generation):
    """Return a decision about random demand, in which servers may be missing."""
    document = {
        "resources": [{"name": "cpu", "unit": ""}],
        "servers": [
            {"name": name, "capacity": {"cpu": cpus}, "labels": {"partition": name}, "count": 1}
            for name, cpus in CPUS.items()
            if chance.random() < 0.9 or name == "big"
        ],
        "tenants": [{"name": team, "weight": chance.randint(1, 4)} for team in TEAMS],
        "workloads": [
            {
                "tenant": team,
                "name": "w",
                "demand": {"cpu": chance.choice([1, 1, 2])},
                "tasks": chance.randint(1, 40),
                "server_selector": chance.choice([{}, {}, {"partition": "big"}]),
            }
            for team in TEAMS
            if chance.random() < 0.7
        ],
        "policy": {"name": "drfh", "mode": "indivisible", "options": {}},
        "weights": "explicit",
    }
    rendering = render(document, "kueue", quota="effective", members=TEAMS)
    return Rendering("run", generation, [], json.loads(json.dumps(rendering.objects)))


def quotas(server):
    return {
        name: {
            cell: int(amount) for cell, amount in limits_of(in_force(item, "ClusterQueue")).items()
        }
        for (collection, _, name), item in server.objects.items()
        if collection == QUEUES
    }


def decided(rendering):
    """Return what a rendering decides by queue, with nothing on flavors that it does not name."""
    found = {}
    for item in rendering.objects:
        if item["kind"] == "ClusterQueue":
            cells = limits_of({"spec": item["status"]["effectiveQuotas"]})
            found[item["metadata"]["name"]] = {
                (flavor, "cpu"): int(cells.get((flavor, "cpu"), 0)) for flavor in CPUS
            }
    return found


def test_random_decisions_fit_at_every_instant(server, tmp_path):
    """Conflicts, a server that restarts or freezes, and an agent that ends at any of its writes."""
    chance, excess, sums = random.Random(12382), [], Counter()
    for team in TEAMS:
        server.put(QUEUES, queue(team, big="5", small="3"))
    git = {team: json.dumps(server.objects[QUEUES, "", team]["spec"]) for team in TEAMS}

    def check():
        for flavor, cpus in CPUS.items():
            total = sum(each[flavor, "cpu"] for each in quotas(server).values())
            sums[total <= cpus] += 1
            if total > cpus:
                excess.append((flavor, total))

    server.after_put.append(check)
    agent, faults = scheduler_of(configuration(server, tmp_path)), Counter()
    for generation in range(DECISIONS):
        rendering = decision(chance, generation)
        fault = chance.choice(["none", "none", "conflict", "kill", "restart", "freeze"])
        faults[fault] += 1
        if fault == "conflict":
            server.before_put = [_counts(server, chance)] * chance.randint(1, 10)
        elif fault == "restart":
            server.restart()
        if fault == "kill":
            # What was lowered stays lowered, and the next decision may be another one.
            with pytest.raises(Killed):
                _end_within(agent, rendering, chance.randint(0, 9))
            agent = scheduler_of(configuration(server, tmp_path))
            if chance.random() < 0.5:
                rendering = decision(chance, generation)
        if fault == "freeze":
            late = _Frozen(server, chance.randint(0, 9))
            late.round(agent, rendering)
            if chance.random() < 0.5:
                agent = scheduler_of(configuration(server, tmp_path))
            assert _round(agent, decision(chance, generation)) == []
            late.thaw()
        assert _round(agent, rendering) == []
        assert quotas(server) == decided(rendering), (generation, fault)
    assert excess == []
    assert {team: json.dumps(server.objects[QUEUES, "", team]["spec"]) for team in TEAMS} == git
    print(f"{DECISIONS} decisions, {sums[True]} sums within capacity, faults {dict(faults)}")


class _Frozen:
    """A server that is frozen within a write, which it carries out once it is thawed."""

    def __init__(self, server, writes):
        self._server, self._held, self._thawed = server, threading.Event(), threading.Event()
        server.before_put = [*[lambda: None] * writes, self._hold]

    def _hold(self):
        self._held.set()
        self._thawed.wait(30)

    def round(self, agent, rendering):
        """Run a round that waits briefly for answers."""
        patience, agent._api._timeout = agent._api._timeout, 0.3
        with suppress(SchedulerAway):
            _round(agent, rendering)
        agent._api._timeout = patience
        self._server.before_put.clear()

    def thaw(self):
        """Carry out the write, if the round came to it."""
        answers = len(self._server.answers)
        self._thawed.set()
        if self._held.is_set():
            until(lambda: len(self._server.answers) > answers)


def _round(agent, rendering):
    plan = agent.plan(rendering, None, NOW)
    return [text for found in plan.problems.values() for text in found] + agent.apply(plan)


def _end_within(agent, rendering, writes):
    """Apply a decision until so many statuses are written, or all, and end."""
    request, left = agent._api.request, [writes]

    def counted(method, *arguments, **options):
        if method == "PATCH":
            if not left[0]:
                raise Killed
            left[0] -= 1
        return request(method, *arguments, **options)

    agent._api.request = counted
    _round(agent, rendering)
    raise Killed


def _counts(server, chance):
    """Return a write of Kueue itself, which counts workloads in the status of some queue."""

    def write():
        item = copy.deepcopy(server.objects[QUEUES, "", chance.choice(TEAMS)])
        item.setdefault("status", {})["pendingWorkloads"] = chance.randint(0, 99)
        server.put(QUEUES, item)

    return write
