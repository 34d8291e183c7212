"""Decisions read from their stored rows, per tenant and per class of servers of one label value."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, localcontext
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from allocator_service.allocation.decided_gangs import decided_gangs
from allocator_service.allocation.decided_parts import (
    EXACT,
    GROUP,
    TENANT,
    Decided,
    DecidedGroup,
    DecidedLimit,
    DecidedSlot,
    DecidedTenant,
    ServerClassName,
    Vector,
)
from allocator_service.allocation.decided_rows import StoredRows, stored_rows
from allocator_service.allocation.decided_slots import (
    most_of_slots,
    raise_to,
    single_servers,
    tasks_by_class,
)
from allocator_service.allocation.models import Run
from allocator_service.core.errors import Conflict
from allocator_service.core.quantities import Resource
from allocator_service.pools.clusters import CLUSTER_LABEL, cluster_of
from policies import (
    classes_of_decision,
    floors_from_document,
    problem_from_document,
)

# The largest relative difference between tasks and their placements that counts as rounding.
_ROUNDING = Decimal("1e-9")


def decided_by_class(
    run: Run, *, label: str, reserves: bool = False, gangs: bool = False, cluster: str = ""
) -> Decided:
    """Return the decision of a succeeded run, in which servers differ by the value of a label.

    With `reserves`, what is reserved is read, too, and with `gangs` the servers of pieces. A `cluster`
    leaves out all other servers. Raises `Gone` once its input is pruned, which that of a decision in
    force never is, and `Conflict` if the policy gives clusters no parts.
    """
    rows = stored_rows(run, reserves=reserves, gangs=gangs)
    return decided_from(rows, run=run, label=label, reserves=reserves, cluster=cluster)


def decided_from(
    rows: StoredRows, *, run: Run, label: str, reserves: bool = False, cluster: str = ""
) -> Decided:
    """Return the decision that is stored as these rows."""
    with localcontext(EXACT):
        return _Reading(rows, run, label, cluster).decided(reserves=reserves)


class _Reading:
    """A decision's rows while they are read."""

    def __init__(self, rows: StoredRows, run: Run, label: str, cluster: str) -> None:
        self.rows, self.run, self.label = rows, run, label
        self.document = rows.document
        parsed = problem_from_document(self.document)
        self.problem, self.choice = parsed.problem, parsed.choice
        self.cluster = cluster
        if cluster:
            self._refuse_unknown_part()
        self.resources = [Resource(**each) for each in self.document["resources"]]
        workloads = self.document["workloads"]
        self.owner = [workload["tenant"] for workload in workloads]
        self.demand = [self._vector(workload["demand"]) for workload in workloads]
        self.placed = [[demand] for demand in self.demand]
        for position in self.problem.placed_by(self.choice).gangs:
            pieces = workloads[position]["pieces"]
            self.placed[position] = [self._vector(each["demand"]) for each in pieces]

    def _refuse_unknown_part(self) -> None:
        """Raise `Conflict` if the decision gives the cluster no part of its own."""
        here = [self._is_here(server["labels"]) for server in self.document["servers"]]
        if here and not any(here):
            raise Conflict(
                f'The decision in force has no servers of the cluster "{self.cluster}": limits there'
                " stay as they are.",
                code="rendering.cluster",
            )
        if not self._places and not all(here):
            raise Conflict(
                f"The policy {self.choice.policy.name} sees the pool as one server, so that no cluster"
                " has a part of its own: choose a policy that places tasks.",
                code="rendering.cluster",
            )

    def _is_here(self, labels: Mapping[str, str]) -> bool:
        return not self.cluster or cluster_of(labels, self.run.pool.slug) == self.cluster

    def decided(self, *, reserves: bool) -> Decided:
        shares: dict[str, float] = {}
        for owner, (_, share) in zip(self.owner, self.rows.tasks, strict=True):
            # Tenants are ordered by share: those without one, which are served last, come last.
            shares.setdefault(owner, float("inf") if share is None else share)
        slots = self._slots()
        if slots:
            totals, by_class = most_of_slots(slots)
        else:
            whole = self._added(
                (owner, None, self._times(tasks, demand))
                for owner, demand, (tasks, _) in zip(
                    self.owner, self.demand, self.rows.tasks, strict=True
                )
            )
            totals = {owner: amounts for (owner, _), amounts in whole.items()}
            by_class = self._added(self._placed()) if self._places else whole
            # The totals of the cluster's servers, not of the pool.
            if self.cluster and self._places:
                parts = ((owner, None, amounts) for (owner, _), amounts in by_class.items())
                totals = {owner: amounts for (owner, _), amounts in self._added(parts).items()}
        classes: dict[str, dict[ServerClassName, Vector]] = defaultdict(dict)
        for (owner, name), amounts in by_class.items():
            classes[owner][name] = amounts
        first_stage = np.where(self.problem.second_stage, 0.0, self.problem.effective_weight)
        # The second stage is of those that are served last. Its weights count if there are no
        # others.
        stage = 0 if first_stage.any() else 1
        weights = self.problem.effective_weight if stage else first_stage
        own = weights if self.problem.groups else None
        if self.problem.has_groups:
            # Readers list all tenants as siblings: each has its part by the tree, in the magnitude of
            # the tenants' own weights, which schedulers round.
            weights = self.problem.tree(stage).parts(weights > 0) * weights.sum()
        own = weights if own is None else own
        return Decided(
            run=self.run,
            resources=self.resources,
            tenants=[
                DecidedTenant(
                    slug,
                    Decimal(repr(weight)),
                    (shares.get(slug, float("inf")), position),
                    totals.get(slug, self._zeros()),
                    classes.get(slug, {}),
                    Decimal(repr(sibling_weight)),
                    None if group < 0 else self.problem.groups[group],
                )
                for position, (slug, weight, sibling_weight, group) in enumerate(
                    zip(
                        self.problem.tenants,
                        weights.tolist(),
                        own.tolist(),
                        self.problem.tenant_group.tolist(),
                        strict=True,
                    )
                )
            ],
            capacity=self._capacity(),
            placed=self._places,
            whole_tasks=self.choice.whole_tasks,
            period_seconds=self.rows.period_seconds,
            slots=slots,
            cluster=self.cluster,
            groups=self._groups(stage),
            limits=self._limits(),
            reserved=self._reserved() if reserves else {},
            gangs=[]
            if self.rows.names is None
            else decided_gangs(
                self.problem,
                self.choice,
                self.document["workloads"],
                self._tasks_here(),
                kinds=self.placed,
                names=self.rows.names,
                placements=self.rows.placements,
            ),
        )

    def _tasks_here(self) -> list[float]:
        """Return the tasks of each workload, 0 of one that has any on servers of another cluster."""
        # A gang runs in one cluster, and is here as a whole or not at all.
        elsewhere = {
            workload
            for workload, _, server_class, _ in self.rows.placements
            if not self._is_here(self.rows.classes[server_class][1])
        }
        return [
            0 if workload in elsewhere else tasks
            for workload, (tasks, _) in enumerate(self.rows.tasks)
        ]

    def _reserved(self) -> dict[tuple[str, ServerClassName], Vector]:
        """Return what guarantees give to tenants by class, or more where they do not lend it."""
        reserved = self._added(self._guaranteed())
        for owner, name, amounts in self._not_lent():
            raise_to(reserved, (owner, name), amounts)
        return reserved

    def _guaranteed(self) -> Iterator[tuple[str, ServerClassName, Vector]]:
        """Yield the guaranteed parts of workloads that run, by class."""
        if self.rows.floors is None:
            return
        rest = floors_from_document(self.rows.floors, self.problem, self.choice).rest
        n, workload_of = self.problem.n, rest.problem.part_of.tolist()
        if self._places:
            parts = zip(*(column.tolist() for column in rest.placements_by_row()), strict=True)
        else:
            parts = zip(range(rest.problem.n), repeat(None), rest.tasks.tolist())
        labels = self.problem.server_labels
        for part, row, tasks in parts:
            # Parts from n on are guaranteed, those before them are the rest of the workloads.
            if part >= n and tasks > 0 and (row is None or self._is_here(labels[row])):
                workload = workload_of[part]
                name = None if row is None else labels[row].get(self.label)
                count = round(tasks) if self.choice.whole_tasks else tasks
                yield self.owner[workload], name, self._times(count, self.demand[workload])

    def _not_lent(self) -> Iterator[tuple[str, ServerClassName, Vector]]:
        """Yield what lenders have on their own servers beyond what others may still have there."""
        loans = [item for item in self.problem.limited if item.limit.scope == "lend"]
        if not loans:
            return
        if self.cluster:
            raise Conflict(
                "Members lend on all clusters together: what one cluster may lend is not known. Ask for"
                " quota=hard.",
                code="rendering.cluster",
            )
        first_row = self._classes.first_row
        servers = self._servers_by_class()
        for item in loans:
            lender = self.problem.tenants[item.limit.node]
            others, own = self._zeros(), dict[ServerClassName, Vector]()
            for workload, kind, server_class, tasks in self.rows.placements:
                # Servers of a member that limits its loans are classes of their own: one row stands
                # for all.
                if not item.rows[first_row[server_class]]:
                    continue
                demand = self.placed[workload][kind]
                for name, amounts in self._on_class(demand, tasks, servers[server_class]):
                    into = others
                    if self.owner[workload] == lender:
                        into = own.setdefault(name, self._zeros())
                    into[:] = [a + b for a, b in zip(into, amounts, strict=True)]
            room = [
                max(Decimal(repr(float(most))) - held, Decimal(0)) if limited else None
                for most, held, limited in zip(
                    item.limit.amount, others, item.limited.tolist(), strict=True
                )
            ]
            # What is left to lend is handed out once, to one class after the other.
            for name in sorted(own, key=lambda name: (name is None, name)):
                kept = []
                for r, held in enumerate(own[name]):
                    left = room[r]
                    lent = held if left is None else min(held, left)
                    room[r] = None if left is None else left - lent
                    kept.append(held - lent)
                yield lender, name, kept

    def _limits(self) -> list[DecidedLimit]:
        return [
            DecidedLimit(
                scope,
                row["name"],
                {
                    label: [values] if isinstance(values, str) else values
                    for label, values in limit["where"].items()
                },
                {name: Decimal(str(amount)) for name, amount in limit["amount"].items()},
            )
            for scope in (GROUP, TENANT)
            for row in self.document.get(f"{scope}s", ())
            for limit in row.get("limit", ())
        ]

    def _groups(self, stage: int) -> list[DecidedGroup]:
        """Return the groups with the weights that counted in the stage, parents first."""
        problem = self.problem
        explicit, derived = problem.group_weight, problem.derived_group_weight
        weight = explicit if stage else np.where(derived > 0, derived, explicit)
        parents = problem.group_parent.tolist()
        return [
            DecidedGroup(
                problem.groups[group],
                None if parents[group] < 0 else problem.groups[parents[group]],
                Decimal(repr(float(weight[group]))),
            )
            for group in problem.groups_top_down.tolist()
        ]

    @property
    def _places(self) -> bool:
        return not self.choice.sees_one_pool

    def _zeros(self) -> Vector:
        return [Decimal(0)] * len(self.resources)

    def _vector(self, quantities: Mapping[str, Any]) -> Vector:
        return [Decimal(str(quantities.get(each.name, 0))) for each in self.resources]

    def _times(self, tasks: float, demand: Vector) -> Vector:
        # The shortest decimal of the double: its binary expansion has digits that mean nothing.
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
        """Return the capacity of the servers that the decision could use, by class."""
        capacity: dict[ServerClassName, Vector] = {}
        for server in self.document["servers"]:
            # A draining server still runs tasks, but no decision could use it.
            if server.get("draining") or not self._is_here(server["labels"]):
                continue
            name = server["labels"].get(self.label) if self._places else None
            offered = [amount * server["count"] for amount in self._vector(server["capacity"])]
            held = capacity.get(name, self._zeros())
            capacity[name] = [a + b for a, b in zip(held, offered, strict=True)]
        return capacity

    def _placed(self) -> Iterator[tuple[str, ServerClassName, Vector]]:
        """Yield the resources that each placement takes of each class."""
        servers = self._servers_by_class()
        for workload, kind, server_class, tasks in self.rows.placements:
            demand = self.placed[workload][kind]
            for name, amounts in self._on_class(demand, tasks, servers[server_class]):
                yield self.owner[workload], name, amounts

        yield from self._rounded()

    def _rounded(self) -> Iterator[tuple[str, ServerClassName, Vector]]:
        """Yield the difference of each workload's tasks and its placements.

        The doubles of placements do not add up exactly to those of tasks. The difference is added to the
        largest placement, so that the parts sum to the decision in every answer.
        """
        if self.choice.whole_tasks:
            return
        added: dict[int, Decimal] = defaultdict(Decimal)
        largest: dict[int, tuple[float, int]] = {}
        for workload, _, server_class, tasks in self.rows.placements:
            count = self.rows.classes[server_class][0]
            added[workload] += Decimal(repr(tasks)) * count
            # Of equal ones the last by position, whatever the order of the rows.
            largest[workload] = max(largest.get(workload, (0.0, -1)), (tasks * count, server_class))
        for workload, placed in added.items():
            decided = Decimal(repr(self.rows.tasks[workload][0]))
            lost = decided - placed
            # A larger difference is not rounding, and must stay visible.
            if not lost or abs(lost) > _ROUNDING * decided:
                continue
            # The first of servers that the run did not distinguish, which may be of several clusters.
            first = int(self._classes.rows_of(largest[workload][1])[0])
            labels = self.problem.server_labels[first]
            if self._is_here(labels):
                amounts = [lost * amount for amount in self.demand[workload]]
                yield self.owner[workload], labels.get(self.label), amounts

    def _on_class(
        self, demand: Vector, tasks: float, by_name: Mapping[ServerClassName, int]
    ) -> Iterator[tuple[ServerClassName, Vector]]:
        """Yield the amounts of tasks on each server of a class, whose servers `by_name` counts."""
        if self.choice.whole_tasks and len(by_name) == 1:
            # Tasks per server are a quotient, which no double may hold exactly.
            ((name, count),) = by_name.items()
            yield name, self._times(round(tasks * count), demand)
            return
        of_one = self._times(tasks, demand)
        for name, count in by_name.items():
            yield name, [amount * count for amount in of_one]

    @cached_property
    def _classes(self) -> Any:
        """The run's classes with the rows of their servers."""
        counts = np.array([count for count, _ in self.rows.classes], dtype=np.int64)
        return classes_of_decision(self.problem, self.choice, counts)

    def _servers_by_class(self) -> list[dict[ServerClassName, int]]:
        """Return the number of servers of each value of the label, for each of the run's classes."""
        labels = [server["labels"] for server in self.document["servers"]]
        needed = {self.label, CLUSTER_LABEL} if self.cluster else {self.label}
        distinguished = {name for name in needed if any(name in each for each in labels)}
        if all(distinguished <= own.keys() for _, own in self.rows.classes):
            return [
                {own.get(self.label): count} if self._is_here(own) else {}
                for count, own in self.rows.classes
            ]
        # Identical servers that the run did not distinguish, of several values of the label or none.
        classes = self._classes
        found: list[dict[ServerClassName, int]] = []
        for position, (count, own) in enumerate(self.rows.classes):
            if distinguished <= own.keys():
                found.append({own.get(self.label): count} if self._is_here(own) else {})
                continue
            members = classes.rows_of(position).tolist()
            sums: dict[ServerClassName, int] = defaultdict(int)
            for row in members:
                if not self._is_here(labels[row]):
                    continue
                of_row = int(self.problem.server_count[row]) if len(members) > 1 else count
                sums[labels[row].get(self.label)] += of_row
            found.append(dict(sums))
        return found

    def _slots(self) -> list[DecidedSlot]:
        """Return the slots of a period on the clock, or none where time is not divided."""
        if self.rows.plan is None:
            return []
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
                for name, tasks in tasks_by_class(row, names)
            )
            for slot in self.rows.plan["slots"]
        ]
        # A slot can have several intervals of the period.
        return [DecidedSlot(start, end, planned[slot]) for start, end, slot in self.rows.intervals]

    def _class_of_server(self) -> dict[str, ServerClassName]:
        """Return the class of each server, by the name that a schedule gives to it."""
        names: dict[str, ServerClassName] = {}
        for server in self.document["servers"] if self._places else ():
            if not self._is_here(server["labels"]):
                continue
            value = server["labels"].get(self.label)
            names |= dict.fromkeys(single_servers(server["name"], server["count"]), value)
        return names
