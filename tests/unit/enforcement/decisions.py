"""Random pools decided by every policy and mode, as the rows that a run would store of them."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from allocator_service.allocation.decided import decided_from
from allocator_service.allocation.decided_parts import (
    Decided,
)
from allocator_service.allocation.decided_rows import StoredRows
from allocator_service.allocation.models import Run
from allocator_service.pools.models import Pool
from policies import (
    floors_to_document,
    problem_from_document,
    schedule_to_document,
    solve,
    timetable,
)

POLICIES = (
    ("drf", "divisible"), ("drf", "indivisible"), ("asset", "divisible"), ("asset", "indivisible"),
    ("drfh", "divisible"), ("drfh", "indivisible"), ("ceei", "divisible"),
    ("single-resource", "indivisible"), ("slots", "indivisible"), ("static", "indivisible"),
    ("mrfs", "indivisible"), ("lt-drf", "indivisible"), ("lt-af", "indivisible"),
    ("h-mrf", "indivisible"), ("tda", "indivisible"),
)  # fmt: skip
RESOURCES = (("cpu", "core"), ("memory", "GiB"), ("gpu", ""))
DECIDED_AT = datetime(2026, 11, 2, 8, tzinfo=UTC)


def document(seed: int, policy: str, mode: str) -> dict[str, Any]:
    """A pool of a few servers in the partitions big and small or in none, some of them draining."""
    draw = random.Random(seed)
    resources = RESOURCES[: draw.randint(1, 3)]
    amounts: list[list[float]] = [[4, 8, 15, 16.5, 32], [8, 12.25, 64, 100], [0, 1, 4]]
    servers = [
        {
            "name": f"s{index}",
            "capacity": {name: draw.choice(amounts[r]) for r, (name, _) in enumerate(resources)},
            "count": draw.choice([1, 1, 2, 3]),
            "labels": draw.choice([{}, {"partition": "big"}, {"partition": "small"}]),
            **({"draining": True} if index and draw.random() < 0.15 else {}),
        }
        for index in range(draw.randint(1, 5))
    ]
    tenants = [
        {"name": f"t{index}", "weight": draw.choice([1, 1, 2, 0.5]), "best_effort": index == 3}
        for index in range(draw.randint(1, 5))
    ]
    demands: list[list[float]] = [[0.2, 0.5, 1, 1.3, 3], [0, 0.1, 1, 3.7], [0, 0, 1]]
    workloads = [
        {
            "tenant": f"t{draw.randrange(len(tenants))}",
            "name": f"w{index}",
            "demand": {name: draw.choice(demands[r]) for r, (name, _) in enumerate(resources)},
            "tasks": draw.choice([None, 0, 2, 7, 40]),
            "server_selector": draw.choice([{}, {}, {}, {"partition": "big"}]),
        }
        for index in range(draw.randint(1, 6))
    ]
    if policy == "tda":
        for workload in workloads:
            workload["server_selector"] = {}
    options = {"pack": draw.random() < 0.5, "period_seconds": 600} if policy == "tda" else {}
    return {
        "resources": [{"name": name, "unit": unit} for name, unit in resources],
        "servers": servers,
        "tenants": tenants,
        "workloads": workloads,
        "policy": {"name": policy, "mode": mode, "options": options},
        "weights": "explicit",
    }


def decide(asked: Mapping[str, Any], *, label: str = "partition", pool: str = "lab") -> Decided:
    """The decision of a document, by way of what publication stores of it."""
    parsed = problem_from_document(asked)
    choice = parsed.choice
    answer = solve(
        parsed.problem, choice.policy.name, mode=choice.mode, options=dict(choice.options)
    )
    owner = parsed.problem.workload_tenant
    classes = [] if answer.choice.sees_one_pool else range(answer.classes.count)
    labels = [server["labels"].items() for server in asked["servers"]]
    schedule = answer.schedule
    stored = StoredRows(
        document=asked,
        tasks=list(zip(answer.tasks.tolist(), answer.weighted_share[owner].tolist(), strict=True)),
        classes=[
            (
                int(answer.classes.servers[position]),
                dict(set.intersection(*(set(labels[r]) for r in answer.classes.rows_of(position)))),
            )
            for position in classes
        ],
        placements=[]
        if answer.choice.sees_one_pool
        else list(
            zip(
                answer.placement_workload.tolist(),
                (answer.placement_piece >= answer.problem.n).astype(int).tolist(),
                answer.placement_class.tolist(),
                (answer.placement_tasks / answer.classes.servers[answer.placement_class]).tolist(),
                strict=True,
            )
        ),
        floors=None if answer.floors is None else floors_to_document(answer.floors),
    )
    if schedule is not None:
        table = timetable(answer, answer.choice.option("period_seconds"))
        stored = StoredRows(
            document=asked,
            tasks=stored.tasks,
            classes=stored.classes,
            placements=stored.placements,
            plan=schedule_to_document(parsed.problem, schedule),
            intervals=[[each.start, each.end, each.slot] for each in table.intervals],
            period_seconds=table.intervals[-1].end,
        )
    run = Run(
        id=UUID("01a20387-d168-76c6-8191-4e0a898ddb02"),
        pool=Pool(slug=pool),
        policy=asked["policy"],
        generation=17,
        effective_from=DECIDED_AT,
    )
    return decided_from(stored, run=run, label=label, reserves=True)
