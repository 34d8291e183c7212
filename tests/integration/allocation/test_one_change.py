"""After each of many random changes, the decision in force is that of the pool computed afresh."""

import math
import random
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from allocator_service.allocation.models import Allocation, Run, RunStatus
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs import recompute
from allocator_service.allocation.runs.recompute import document_solve, recompute_pool
from allocator_service.allocation.runs.snapshots import pool_state
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.stored_placements import stored_placements
from allocator_service.core.models import Event
from allocator_service.ledger.models import PendingDecision, SealedDecision
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import MembershipTerms, Pool, Server
from allocator_service.pools.server_services import (
    ServerDraft,
    server_activate,
    server_drain,
    server_retire,
    servers_contribute,
)
from allocator_service.pools.services import pool_update
from allocator_service.workloads.models import Workload
from allocator_service.workloads.services import (
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workload_withdraw,
    workloads_submit,
)
from policies import UNSERVED
from tests.examples import thorough
from tests.integration.conftest import NOON, settings, vector
from tests.references.decisions import plain_answer, plain_digest, plain_input

pytestmark = pytest.mark.django_db(transaction=True)

CHANGES, CHANGES_AT_LENGTH = 80, 1_000
TENANTS = [f"u{number}" for number in range(6)]
SIZES = [(2, 12), (12, 2), (6, 6)]
DEMANDS = ["0.1", "0.25", "0.7", "1", "1.5", "3"]


@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
def test_the_decision_in_force_after_each_change_is_the_one_computed_afresh(pool, tenant, mode):
    chance = random.Random(f"{mode} 1")
    options = {"placement": "best-fit"} if mode == "indivisible" else {}
    choice = policy_choose("drfh", mode, options)
    pool_update(pool=pool, settings=settings(policy=choice), version=None, now=NOON)
    servers_contribute(pool=pool, drafts=[_server(chance, n, tenant) for n in range(6)], now=NOON)
    workloads_submit(pool=pool, drafts=[_workload(chance, n, tenant) for n in range(8)], now=NOON)
    tasks_before = {}
    kinds = set()
    for number in range(CHANGES_AT_LENGTH if thorough() else CHANGES):
        now = NOON + timedelta(seconds=number)
        kinds.add(_change(pool, chance, number, tenant, now))
        run = recompute_pool(pool_id=pool.pk, clock=lambda now=now: now, early=True)
        in_force = Run.objects.get(pool=pool, status=RunStatus.SUCCEEDED, effective_until=None)
        assert run == in_force
        tasks_before = _compare(Pool.objects.get(pk=pool.pk), run, tasks_before)
        # Read with what the process keeps, and without.
        kept = pool_state(pool.pk, now=now, known=recompute._KNOWN)
        assert kept.written == pool_state(pool.pk, now=now).written
    assert kinds == {"tasks", "demand", "submit", "withdraw", "weight", "server", "state", "retire"}


def _server(chance, number, tenant):
    owner = chance.choice([None, tenant(TENANTS[0]), tenant(TENANTS[1])])
    zone = chance.choice("ab")
    size = vector(*chance.choice(SIZES))
    return ServerDraft(f"server-{number}", size, owner, {"zone": zone}, count=1 + number % 3)


def _workload(chance, number, tenant):
    return WorkloadDraft(
        tenant(chance.choice(TENANTS)),
        f"work-{number}",
        vector(chance.choice(DEMANDS), chance.choice(DEMANDS)),
        tasks=chance.choice([None, 0, 1, 2, 5, 40]),
        server_selector=chance.choice([{}, {}, {"zone": "a"}, {"zone": ["a", "b"]}]),
    )


def _change(pool, chance, number, tenant, now):
    """Change one thing of the pool. Return its kind."""
    active = list(Workload.objects.filter(pool=pool, state="active").order_by("id"))
    servers = list(Server.objects.filter(pool=pool).exclude(state="retired").order_by("id"))
    kind = chance.choices(
        ["tasks", "demand", "submit", "withdraw", "weight", "server", "state", "retire"],
        [10, 3, 3, 3, 2, 1, 2, 1],
    )[0]
    if kind == "withdraw" and len(active) < 5:
        kind = "submit"
    if kind == "retire" and len(servers) < 5:
        kind = "server"
    if kind in ("tasks", "demand"):
        workload = chance.choice(active)
        demand = vector(chance.choice(DEMANDS), chance.choice(DEMANDS))
        changed = WorkloadSettings(
            name=workload.name,
            demand=demand if kind == "demand" else workload.demand,
            tasks=chance.choice([None, 0, 1, 3, 10, 30]) if kind == "tasks" else workload.tasks,
            priority=workload.priority,
            server_selector=workload.server_selector,
            state=workload.state,
        )
        workload_update(workload=workload, settings=changed, version=None, now=now)
    elif kind == "submit":
        draft = _workload(chance, 100 + number, tenant)
        workloads_submit(pool=pool, drafts=[draft], now=now)
    elif kind == "withdraw":
        workload_withdraw(workload=chance.choice(active), now=now)
    elif kind == "weight":
        tenant_of_one = chance.choice(active).tenant
        terms = MembershipTerms.objects.get(
            membership__pool=pool, membership__tenant=tenant_of_one, end=None
        )
        weights = [Decimal("0.5"), Decimal(1), Decimal("2.25")]
        member_put(
            pool=pool,
            tenant=tenant_of_one,
            weight=chance.choice([each for each in weights if each != terms.weight]),
            best_effort=chance.random() < 0.2,
            version=terms.membership.version,
            now=now,
        )
    elif kind == "server":
        draft = _server(chance, 100 + number, tenant)
        servers_contribute(pool=pool, drafts=[draft], now=now)
    elif kind == "state":
        server = chance.choice(servers)
        (server_drain if server.state == "active" else server_activate)(server=server, now=now)
    else:
        server_retire(server=chance.choice(servers), now=now)
    return kind


def _compare(pool, run, tasks_before):
    """Compare all that a run stored with a fresh computation. Return the tasks by workload."""
    stored = input_of(run)
    expected = plain_input(pool)
    if "running" in stored:  # best-fit keeps tasks where they run, which is a part of the input
        expected["running"] = stored["running"]
    assert stored == expected
    decision = document_solve(expected)
    workloads = list(Workload.objects.filter(pool=pool, state="active").order_by("id"))
    allocations = list(Allocation.objects.filter(run=run).order_by("position"))
    assert [
        (row.workload_id, row.tenant_id, row.tasks, row.level, row.limited_by)
        for row in allocations
    ] == [
        (workload.pk, workload.tenant_id, tasks, level if math.isfinite(level) else None, reason)
        for workload, tasks, level, reason in zip(
            workloads,
            decision.tasks.tolist(),
            decision.level[decision.problem.workload_tenant].tolist(),
            decision.limited_by,
            strict=True,
        )
    ]
    servers = decision.classes.servers[decision.placement_class]
    each = decision.placement_tasks / servers
    assert list(stored_placements(run)) == [
        (piece, 0, position, tasks)
        for piece, position, tasks in zip(
            decision.placement_piece.tolist(),
            decision.placement_class.tolist(),
            each.tolist(),
            strict=True,
        )
    ]
    chained = (
        PendingDecision.objects.filter(run_id=run.pk).first()
        or SealedDecision.objects.filter(run_id=run.pk).get()
    )
    kept = replace(decision, placement_tasks=servers * each)
    assert bytes(chained.input).hex() == plain_digest(expected)
    assert bytes(chained.answer).hex() == plain_digest(plain_answer(expected, kept))
    for workload, reason in zip(workloads, decision.limited_by, strict=True):
        assert workload.unsatisfiable == (reason if reason in UNSERVED else "")
    tasks = {str(row.workload_id): (row.tenant.slug, row.tasks) for row in allocations}
    assert _recorded_changes(run) == _changes(tasks_before, tasks)
    return tasks


def _recorded_changes(run):
    events = Event.objects.filter(kind="allocation.changed", payload__run=str(run.pk))
    return {
        (event.tenant, entry["workload"]): (entry["before"], entry["after"])
        for event in events
        for entry in event.payload["workloads"]
    }


def _changes(before, after):
    changes = {}
    for workload in before.keys() | after.keys():
        tenant, _ = before.get(workload) or after[workload]
        had, has = before.get(workload, (tenant, 0.0))[1], after.get(workload, (tenant, 0.0))[1]
        if not math.isclose(had, has, rel_tol=1e-9):
            changes[tenant, workload] = had, has
    return changes
