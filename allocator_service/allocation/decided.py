"""What a decision gives, as exact decimals: per tenant, and per class of servers of one label value.

A whole task is exact. A divisible one is the shortest decimal that reads back as the stored double,
which is the number that the API shows.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np

from allocator_service.allocation.models import Allocation, Placement, Run, Schedule, ServerClass
from allocator_service.allocation.selectors import input_of
from allocator_service.core.quantities import Resource
from policies import choose, classes_of_decision, problem_from_document

# Products of a double's 17 digits with 24 of a demand, added up over 10^6 rows, are exact in so many.
EXACT = Context(prec=120)
Vector = list[Decimal]
# The value of the label, or None for servers without it and for what no server is named for.
ServerClassName = str | None


@dataclass(frozen=True)
class DecidedTenant:
    """A tenant's part, in the order of the pool's resources.

    `weight` is the one that counted. `rank` orders tenants as the policy would: the least weighted
    share first, then the order of the input. `amounts` is all of it, `by_class` its parts.
    """

    slug: str
    weight: Decimal
    rank: tuple[float, int]
    amounts: Vector
    by_class: Mapping[ServerClassName, Vector]


@dataclass(frozen=True)
class DecidedSlot:
    """What runs within `[start, end)` seconds of the period, by tenant and class."""

    start: int
    end: int
    amounts: Mapping[tuple[str, ServerClassName], Vector]


@dataclass(frozen=True)
class Decided:
    """A decision by tenant and class; `capacity` is what the servers of each class offered.

    `placed`: the policy chose servers, so that classes mean something. Under a policy that divides time
    a tenant's amounts are the most that it has in any slot, and `period_seconds` is above 0.
    """

    run: Run
    resources: Sequence[Resource]
    tenants: Sequence[DecidedTenant]
    capacity: Mapping[ServerClassName, Vector]
    placed: bool
    whole_tasks: bool
    period_seconds: int = 0
    slots: Sequence[DecidedSlot] = field(default_factory=tuple)


def decided_by_class(run: Run, *, label: str) -> Decided:
    """The decision of a succeeded run, with servers told apart by the value of a label.

    Raises `Gone` once its input is pruned, which that of a decision in force never is.
    """
    with localcontext(EXACT):
        return _Reading(run, label).decided()


class _Reading:
    """One reading of a run's rows: a statement per table."""

    def __init__(self, run: Run, label: str) -> None:
        self.run, self.label = run, label
        self.document = input_of(run)
        self.problem = problem_from_document(self.document).problem
        self.choice = choose(**run.policy)
        self.resources = [Resource(**each) for each in self.document["resources"]]
        workloads = self.document["workloads"]
        self.owner = [workload["tenant"] for workload in workloads]
        self.demand = [self._vector(workload["demand"]) for workload in workloads]

    def decided(self) -> Decided:
        rows = list(
            Allocation.objects.filter(run=self.run)
            .order_by("position")
            .values_list("tasks", "workload_id", "weighted_share")
        )
        shares: dict[str, float] = {}
        for owner, (_, _, share) in zip(self.owner, rows, strict=True):
            shares.setdefault(owner, float("inf") if share is None else share)
        slots, period = self._slots()
        parts: Iterable[tuple[str, ServerClassName, Vector]]
        if period:
            totals, by_class = _most(slots)
        else:
            whole = self._added(
                (owner, None, self._times(tasks, demand))
                for owner, demand, (tasks, _, _) in zip(self.owner, self.demand, rows, strict=True)
            )
            totals = {owner: amounts for (owner, _), amounts in whole.items()}
            parts = self._placed([id_ for _, id_, _ in rows]) if self._places else ()
            by_class = self._added(parts) if self._places else whole
        classes: dict[str, dict[ServerClassName, Vector]] = defaultdict(dict)
        for (owner, name), amounts in by_class.items():
            classes[owner][name] = amounts
        weights = self.problem.effective_weight.tolist()
        return Decided(
            run=self.run,
            resources=self.resources,
            tenants=[
                DecidedTenant(
                    slug,
                    Decimal(0) if second else Decimal(repr(weight)),
                    (shares.get(slug, float("inf")), position),
                    totals.get(slug, self._zeros()),
                    classes.get(slug, {}),
                )
                for position, (slug, weight, second) in enumerate(
                    zip(
                        self.problem.tenants,
                        weights,
                        self.problem.second_stage.tolist(),
                        strict=True,
                    )
                )
            ],
            capacity=self._capacity(),
            placed=self._places,
            whole_tasks=self.choice.whole_tasks,
            period_seconds=period,
            slots=slots,
        )

    @property
    def _places(self) -> bool:
        return not self.choice.sees_one_pool

    def _zeros(self) -> Vector:
        return [Decimal(0)] * len(self.resources)

    def _vector(self, quantities: Mapping[str, Any]) -> Vector:
        return [Decimal(str(quantities.get(each.name, 0))) for each in self.resources]

    def _times(self, tasks: float, demand: Vector) -> Vector:
        count = Decimal(int(tasks)) if tasks == int(tasks) else Decimal(repr(tasks))
        return [count * amount for amount in demand]

    def _added(
        self, parts: Iterable[tuple[str, ServerClassName, Vector]]
    ) -> dict[tuple[str, ServerClassName], Vector]:
        sums: dict[tuple[str, ServerClassName], Vector] = {}
        for owner, name, amounts in parts:
            held = sums.get((owner, name))
            sums[owner, name] = (
                amounts if held is None else [a + b for a, b in zip(held, amounts, strict=True)]
            )
        return sums

    def _capacity(self) -> dict[ServerClassName, Vector]:
        """Of the servers that the decision could use, added up by class."""
        capacity: dict[ServerClassName, Vector] = {}
        for server in self.document["servers"]:
            if server.get("draining"):
                continue
            name = server["labels"].get(self.label) if self._places else None
            offered = [amount * server["count"] for amount in self._vector(server["capacity"])]
            held = capacity.get(name, self._zeros())
            capacity[name] = [a + b for a, b in zip(held, offered, strict=True)]
        return capacity

    def _placed(self, workload_ids: Sequence[Any]) -> Iterator[tuple[str, ServerClassName, Vector]]:
        """What each placement takes of each class."""
        position_of = {id_: position for position, id_ in enumerate(workload_ids)}
        servers = self._servers_by_class()
        placements = Placement.objects.filter(run=self.run).values_list(
            "workload_id", "server_class_id", "tasks"
        )
        for workload, server_class, tasks in placements.iterator(chunk_size=10_000):
            position = position_of[workload]
            of_one = self._times(tasks, self.demand[position])
            for name, count in servers[server_class].items():
                amounts = of_one if count == 1 else [amount * count for amount in of_one]
                yield self.owner[position], name, amounts

    def _servers_by_class(self) -> dict[Any, dict[ServerClassName, int]]:
        """How many servers of each value of the label the run's own classes have."""
        rows = list(
            ServerClass.objects.filter(run=self.run)
            .order_by("position")
            .values_list("id", "count", "labels")
        )
        labels = [server["labels"] for server in self.document["servers"]]
        exists = any(self.label in each for each in labels)
        known = {
            id_: {own.get(self.label): count}
            for id_, count, own in rows
            if self.label in own or not exists
        }
        if len(known) == len(rows):
            return known
        # Identical servers that the run did not tell apart, of several values of the label or none.
        counts = np.array([count for _, count, _ in rows], dtype=np.int64)
        classes = classes_of_decision(self.problem, self.choice, counts)
        for position, (id_, count, _) in enumerate(rows):
            if id_ in known:
                continue
            members = classes.rows_of(position).tolist()
            if len(members) == 1:
                known[id_] = {labels[members[0]].get(self.label): count}
                continue
            found: dict[ServerClassName, int] = defaultdict(int)
            for row in members:
                found[labels[row].get(self.label)] += int(self.problem.server_count[row])
            known[id_] = dict(found)
        return known

    def _slots(self) -> tuple[list[DecidedSlot], int]:
        """The slots of a period on the clock, and its seconds; none where time is not divided."""
        schedule = Schedule.objects.filter(run=self.run).first()
        if schedule is None:
            return [], 0
        position_of = {
            (workload["tenant"], workload["name"]): position
            for position, workload in enumerate(self.document["workloads"])
        }
        names = self._class_of_server()
        planned = [
            self._added(
                (row["tenant"], name, self._times(tasks, self.demand[position]))
                for row in slot["allocations"]
                for position in [position_of[row["tenant"], row["workload"]]]
                for name, tasks in _where(row, names)
            )
            for slot in schedule.plan["slots"]
        ]
        slots = [DecidedSlot(start, end, planned[slot]) for start, end, slot in schedule.intervals]
        return slots, schedule.period_seconds

    def _class_of_server(self) -> dict[str, ServerClassName]:
        """By the name that a schedule gives to a server."""
        names: dict[str, ServerClassName] = {}
        for server in self.document["servers"] if self._places else ():
            value = server["labels"].get(self.label)
            count, name = server["count"], server["name"]
            if count == 1:
                names[name] = value
                continue
            width = max(4, len(str(count)))
            names |= {f"{name}-{number:0{width}d}": value for number in range(1, count + 1)}
        return names


def _where(
    row: Mapping[str, Any], names: Mapping[str, ServerClassName]
) -> Iterator[tuple[ServerClassName, float]]:
    """The tasks of a slot's row by class: on one pool they are in none."""
    if "servers" not in row:
        yield None, row["tasks"]
        return
    for item in row["servers"]:
        yield names[item["server"]], item["tasks"]


def _most(
    slots: Sequence[DecidedSlot],
) -> tuple[dict[str, Vector], dict[tuple[str, ServerClassName], Vector]]:
    """The most of each resource that a tenant has in any slot, of all classes and of each."""
    totals: dict[str, Vector] = {}
    by_class: dict[tuple[str, ServerClassName], Vector] = {}
    for slot in slots:
        of_slot: dict[str, Vector] = {}
        for (tenant, name), amounts in slot.amounts.items():
            _raise(by_class, (tenant, name), amounts)
            held = of_slot.get(tenant, [Decimal(0)] * len(amounts))
            of_slot[tenant] = [a + b for a, b in zip(held, amounts, strict=True)]
        for tenant, amounts in of_slot.items():
            _raise(totals, tenant, amounts)
    return totals, by_class


def _raise(most: dict[Any, Vector], key: Any, amounts: Vector) -> None:
    held = most.get(key)
    most[key] = amounts if held is None else [max(a, b) for a, b in zip(held, amounts, strict=True)]
