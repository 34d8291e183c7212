"""Gangs in backtests: from a pool's history, in scenarios, and who is paid for their servers."""

from datetime import timedelta
from types import MappingProxyType

import numpy as np
import pytest

from allocator_service.backtests.costs import used_by_owner
from allocator_service.backtests.histories import submitted_between
from allocator_service.backtests.obstacles import obstacles_text
from allocator_service.backtests.scenarios import Scenario, gang_fields
from allocator_service.pools.models import Pool
from allocator_service.workloads.gangs import Gang as StoredGang
from allocator_service.workloads.gangs import pieces_from
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from policies import Gang, Problem
from policies.simulation import Trace, simulate
from tests.integration.billing.conftest import used
from tests.integration.conftest import NOON, vector

HOUR = timedelta(hours=1)
HEAD_AND_WORKERS = [
    {"count": 1, "demand": {"cpu": "4"}},
    {"count": 2, "demand": {"cpu": "1", "memory": "2"}},
]


@pytest.mark.django_db
def test_tasks_of_a_workload_with_pieces_are_gangs(pool, tenant):
    Pool.objects.filter(pk=pool.pk).update(policy_mode="indivisible")
    gang = StoredGang(pieces_from(HEAD_AND_WORKERS), 1, "rack", 2)
    draft = WorkloadDraft(tenant("ada"), "ray", vector(6, 4), gang=gang)
    submitted = workloads_submit(pool=pool, drafts=[draft], now=NOON)
    ray = pool.workloads.get(pk=submitted.ids[0])
    for event, resource, amount in (("a", "cpu", 12), ("a", "memory", 8), ("b", "cpu", 5)):
        used(
            pool, ray.tenant, None, amount, NOON, NOON + HOUR, workload_id=ray.pk,
            resource=resource, event_id=event,
        )  # fmt: skip
    found = submitted_between(pool=pool, tenant=None, start=NOON, end=NOON + HOUR)
    assert found.demand.tolist() == [[6, 4], [5, 0]]
    assert found.trace.workload.tolist() == [0, 0, 1]
    (stated,) = found.gangs.values()
    assert list(found.gangs) == [0]
    assert stated.count.tolist() == [1, 2]
    assert stated.demand.tolist() == [[4, 0], [1, 2]]
    # How many tasks had to start at once is not known of the past.
    assert (stated.per_server, stated.together, stated.at_least) == (1, "rack", 1)


@pytest.mark.parametrize(
    ("counts", "demands", "labels", "more", "reason"),
    [
        ([2], [1], None, {"together": "rack"}, "no server has the label rack"),
        ([2], [5], None, {}, "pieces of tasks need cpu 5 or more"),
        ([1, 2], [1, 6], None, {}, "pieces of tasks need cpu 6 or more"),
        ([3], [4], None, {}, "the servers have too little room for all pieces of a task"),
        ([3], [1], None, {"per_server": 1},
         "the servers have too little room for all pieces of a task"),
        ([3], [4], [{"rack": "a"}, {"rack": "b"}], {"together": "rack"},
         "the servers with one value of rack have too little room for all pieces of a task"),
    ],
)  # fmt: skip
def test_why_a_gang_fits_nowhere_is_stated(counts, demands, labels, more, reason):
    gang = Gang(count=np.array(counts), demand=np.array([[float(d)] for d in demands]), **more)
    stated = scenario(gang, labels=labels)
    assert not stated.fitting.any()
    assert obstacles_text(stated) == reason


def test_labels_that_no_server_has_are_an_obstacle():
    gang = Gang(count=np.array([2]), demand=np.array([[1.0]]))
    stated = scenario(gang, selector={"gpu": ["a100"]})
    assert not stated.fitting.any()
    assert obstacles_text(stated) == "no server has the labels that tasks ask for"


def scenario(gang, *, servers=2, labels=None, selector=MappingProxyType({})):
    """Return a scenario of one task with a gang on servers of 4 CPUs each."""
    head = {
        "resources": ["cpu"],
        "units": ["core"],
        "tenants": [{"name": "ada", "weight": 1.0, "best_effort": False, "pk": None}],
        "labels": labels or [{}],
        "selectors": [dict(selector)],
        "gangs": {"0": gang_fields(gang)},
        "weights": "explicit",
        "origin": "1970-01-01T00:00:00+00:00",
        "step": 60.0,
        "window": {"kind": "unbounded"},
    }
    count = len(head["labels"])
    return Scenario.of(
        head,
        workload_tenant=[0],
        demand=gang.total,
        priority=[0],
        capacity=[4.0] * count,
        server_count=[servers] * count,
        contributed_by=[-1] * count,
        task_workload=[0],
        task_submit=[0.0],
        task_duration=[10.0],
        task_job=[0],
        change_time=[],
        change_server=[],
        change_joins=[],
    )


def gang_of(count, cpu, **options):
    return Gang(np.array([count]), np.array([[float(cpu)]]), **options)


def test_a_scenario_keeps_its_gangs():
    first = scenario(gang_of(2, 3, per_server=1, together="rack", at_least=2))
    again = Scenario.from_bytes(first.to_bytes())
    assert again.digest == first.digest
    (gang,) = again.problem.gangs.values()
    assert (gang.count.tolist(), gang.demand.tolist()) == ([2], [[3]])
    assert (gang.per_server, gang.together, gang.at_least) == (1, "rack", 2)
    assert again.problem.demand.tolist() == [[6]]


@pytest.mark.parametrize(
    ("gang", "labels", "fits"),
    [
        (gang_of(2, 3), None, True),
        (gang_of(3, 3), None, False),
        (gang_of(4, 2), None, True),
        (gang_of(4, 2, per_server=1), None, False),
        (gang_of(1, 5), None, False),
        (gang_of(2, 3, together="rack"), [{"rack": "a"}, {"rack": "b"}], True),
        (gang_of(3, 3, together="rack"), [{"rack": "a"}, {"rack": "b"}], False),
        (gang_of(3, 3, together="rack"), [{"rack": "a"}, {"rack": "a"}], True),
        (gang_of(1, 3, together="rack"), [{}], False),
        (Gang(np.array([1, 2]), np.array([[4.0], [5.0]])), None, False),
    ],
)
def test_a_gang_fits_where_all_of_its_pieces_do(gang, labels, fits):
    assert scenario(gang, labels=labels).fitting.tolist() == [fits]


def test_each_piece_is_used_of_the_owner_of_its_server():
    """The head runs on the server of u1 for 10 s, the workers on that of the pool."""
    problem = Problem.create(
        resources=["cpu", "gpu"], capacity=[[4, 0], [4, 4]], contributed_by=[1, -1],
        tenants=["u0", "u1"], workload_tenant=[0, 1], demand=[[0, 0], [1, 0]],
        gangs={0: Gang(np.array([1, 2]), np.array([[4.0, 0.0], [1.0, 2.0]]))},
    )  # fmt: skip
    trace = Trace.create(workload=[0, 1], submit=[0, 1], duration=[10, 2])
    found = used_by_owner(simulate(problem, trace, "drfh"))
    # By tenant, then of the pool, u0 and u1.
    assert found.tolist() == [
        [[20, 40], [0, 0], [40, 0]],
        [[2, 0], [0, 0], [0, 0]],
    ]
