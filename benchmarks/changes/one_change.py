"""From a PATCH of one workload to the decision in force, through web server, relay and worker.

The pool has the servers of Table 1 and one workload for each member. The peer is the goal. Notes have
the rows written, and the processor seconds by step of one more change, decided in this process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

from allocator_service.allocation.models import Run, RunStatus
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs import recompute
from allocator_service.core.garbage import collect_rarely, pause_collection
from allocator_service.core.ids import new_id
from allocator_service.core.quantities import Resource
from allocator_service.pools.models import Pool
from allocator_service.pools.policy import Window
from allocator_service.pools.recompute import decision_request
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import PoolSettings, pool_create
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload
from allocator_service.workloads.services import (
    MAX_WORKLOADS_PER_REQUEST,
    WorkloadDraft,
    workloads_submit,
)
from benchmarks.database import log_bytes, processor_seconds, rows_by_table
from benchmarks.http.service import Service
from benchmarks.instances import GOOGLE_SERVERS
from benchmarks.measurement import Row

GOALS = {900: 0.5, 10_000: 1.0, 100_000: 2.0}
MODES: dict[str, dict[str, Any]] = {"divisible": {}, "indivisible": {"placement": "best-fit"}}
MOST_OF_WHOLE_TASKS = (
    10_000  # members: a larger pool of these servers is refused (`problem.too_large`)
)
TASKS = 250_000  # of all workloads: more than the servers hold, so that a change moves nearly all levels
CHANGES = 5
LONGEST_SECONDS = 900.0
# Functions of the recompute that are its steps, in order.
STEPS = {
    "pool_state": "read",
    "_store_input": "store the input",
    "_read_and_solve": "solve and verify",
    "decision_digests": "digest",
    "_publish": "publish",
}


def measure(*, quick: bool = False) -> list[Row]:
    """Return a row for each size and mode."""
    service = Service(workers=1)
    try:
        pools: dict[tuple[int, str], Pool] = {}
        measured: dict[tuple[int, str], tuple[float, str]] = {}
        for tenants in [50] if quick else GOALS:
            for mode in MODES:
                if mode == "divisible" or tenants <= MOST_OF_WHOLE_TASKS:
                    # One after the other: the metering of a larger pool would take the processors.
                    pools[tenants, mode] = pool = _pool(tenants, mode)
                    measured[tenants, mode] = _through_the_service(service, pool)
    finally:
        service.stop()
    return [
        Row(
            f"one change, {mode}",
            f"{tenants:,} members, 12,583 servers (10 classes), {CHANGES} changes",
            measured[tenants, mode][0],
            "none: the goal",
            GOALS.get(tenants, 0.5),
            None,
            1.0,
            f"{measured[tenants, mode][1]}; processor seconds: {_by_step(pool)}",
        )
        for (tenants, mode), pool in pools.items()
    ]


def _pool(tenants: int, mode: str) -> Pool:
    now, slug = datetime.now(UTC), f"change-{new_id().hex[-8:]}"
    pool = pool_create(
        slug=slug,
        settings=PoolSettings(
            name=slug,
            resources=[Resource("cpu", ""), Resource("memory", "")],
            policy=policy_choose("drfh", mode, MODES[mode]),
            window=Window("unbounded", now),
            weights="explicit",
            own_servers=False,
            count="total",
            decision_interval="PT1M",
            metering="allocation",
            currency="EUR",
            timezone="UTC",
            transparent=False,
        ),
        now=now,
    )
    classes = [
        ServerDraft(f"class-{number}", _vector(sizes), count=count)
        for number, (count, *sizes) in enumerate(GOOGLE_SERVERS)
    ]
    servers_contribute(pool=pool, drafts=classes, now=now)
    slugs = [f"{slug}-{number}" for number in range(tenants)]
    Tenant.objects.bulk_create(Tenant(slug=each, name=each, created_at=now) for each in slugs)
    random = np.random.default_rng(1)
    demand = random.uniform(0.01, 0.3, (tenants, 2)).round(4)
    tasks = random.integers(1, 2 * TASKS // tenants, tenants)
    members = Tenant.objects.filter(slug__in=slugs).order_by("id")
    drafts = [
        WorkloadDraft(tenant, "work", _vector(row), tasks=number)
        for tenant, row, number in zip(members, demand.tolist(), tasks.tolist(), strict=True)
    ]
    for first in range(0, tenants, MAX_WORKLOADS_PER_REQUEST):
        part = drafts[first : first + MAX_WORKLOADS_PER_REQUEST]
        workloads_submit(pool=pool, drafts=part, now=now)
    return pool


def _vector(amounts: list[float]) -> list[Decimal]:
    return [Decimal(str(amount)) for amount in amounts]


def _through_the_service(service: Service, pool: Pool) -> tuple[float, str]:
    """Return the median of the seconds from a PATCH to its decision, and the rows written for one."""
    _await_decision(pool, Pool.objects.get(pk=pool.pk).generation)
    seconds, rows, logged, runs = [], [], [], Run.objects.filter(pool=pool).count()
    for number, workload in enumerate(_some_workloads(pool)):
        before, begin_of_log = sum(rows_by_table().values()), log_bytes()
        begin = time.perf_counter()
        path = f"/api/v1/pools/{pool.slug}/workloads/{workload}/"
        answer = service.client.patch(path, {"tasks": 1 + number})
        _await_decision(pool, int(answer.headers["Pool-Generation"]))
        seconds.append(time.perf_counter() - begin)
        time.sleep(1)  # until the sessions have reported their statistics
        rows.append(sum(rows_by_table().values()) - before)
        logged.append(log_bytes() - begin_of_log)
    runs = Run.objects.filter(pool=pool).count() - runs
    written = (
        f"{statistics.median(rows):,.0f} rows and {statistics.median(logged) / 1e6:.1f} MB of log"
    )
    return statistics.median(seconds), f"{written} written, {runs} runs for {CHANGES} changes"


def _some_workloads(pool: Pool) -> list[UUID]:
    ids = Workload.objects.filter(pool=pool).order_by("id").values_list("pk", flat=True)
    return list(ids[: 7 * CHANGES : 7])


def _await_decision(pool: Pool, generation: int) -> None:
    end = time.monotonic() + LONGEST_SECONDS
    decided = Run.objects.filter(pool=pool, status=RunStatus.SUCCEEDED, generation__gte=generation)
    while not decided.filter(effective_from__lte=datetime.now(UTC)).exists():
        if time.monotonic() > end:
            raise RuntimeError(f"{pool.slug} has no decision after {LONGEST_SECONDS:g} s")
        # Short beside the decision, or waiting would be most of what is measured.
        time.sleep(0.005)


def _by_step(pool: Pool) -> str:
    """Return the processor seconds of each step for the second of two changes.

    Those of the session in the database are included.
    """
    spent: dict[str, float] = {}
    collect_rarely()  # as in a worker
    for number, workload in enumerate(_some_workloads(pool)[:2]):
        # Past the service: the steps of the decision are measured, not the request.
        Workload.objects.filter(pk=workload).update(tasks=20 + number)
        decision_request(pool, now=datetime.now(UTC))
        # The first change fills the caches, and the second is measured.
        spent.clear()
        with _timed_steps(spent):
            begin = processor_seconds()
            with pause_collection():
                recompute.recompute_pool(
                    pool_id=pool.pk, clock=lambda: datetime.now(UTC), early=True
                )
            spent["all"] = processor_seconds() - begin
    return ", ".join(f"{step} {seconds:.2f}" for step, seconds in spent.items())


@contextmanager
def _timed_steps(spent: dict[str, float]) -> Iterator[None]:
    originals = {name: getattr(recompute, name) for name in STEPS}
    for name, step in originals.items():
        setattr(recompute, name, _with_timer(step, STEPS[name], spent))
    try:
        yield
    finally:
        for name, step in originals.items():
            setattr(recompute, name, step)


def _with_timer(
    function: Callable[..., Any], name: str, spent: dict[str, float]
) -> Callable[..., Any]:
    def run(*arguments: Any, **named: Any) -> Any:
        begin = processor_seconds()
        try:
            return function(*arguments, **named)
        finally:
            spent[name] = spent.get(name, 0.0) + processor_seconds() - begin

    return run
