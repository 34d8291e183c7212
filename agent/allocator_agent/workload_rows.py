"""Jobs of a scheduler as the rows of workloads that the service imports."""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from allocator_agent.configuration import Configuration
from allocator_agent.model import (
    LICENCE_CLASS,
    LICENCE_PREFIX,
    TYPES,
    Job,
    all_licences,
    started_together,
)
from allocator_agent.quantities import MEBIBYTE, Amounts, Units, decimal_text

_LONGEST_NAME = 240
_MOST_KINDS = 2  # of the pieces of a task
_Demand = tuple[tuple[str, Fraction], ...]
_Workloads = dict["_Workload", list[tuple[Job, int]]]


@dataclass(frozen=True, order=True)
class _Workload:
    """Jobs of one tenant, place and shape. `kinds` are pieces that start together, one for a task."""

    tenant: str
    where: tuple[str, ...]
    selects: tuple[tuple[str, tuple[str, ...]], ...]
    kinds: tuple[tuple[int, tuple[tuple[str, str], ...]], ...]
    per_server: int
    together: str
    name: str

    def row(self, tasks: int, class_label: str) -> dict[str, str]:
        """Return the workload with so many tasks as the service imports it."""
        (count, demand), *others = self.kinds
        row = {"tenant": self.tenant, "name": self.name, "tasks": str(tasks)}
        if self.where:
            row[f"selector.{class_label}"] = "|".join(self.where)
        row |= {f"selector.{label}": "|".join(values) for label, values in self.selects}
        row |= {f"demand.{resource}": amount for resource, amount in demand}
        if count > 1 or others:
            row["pieces"] = str(count)
            for second, amounts in others:
                row["second_pieces"] = str(second)
                row |= {f"second_demand.{resource}": amount for resource, amount in amounts}
            if self.per_server:
                row["per_server"] = str(self.per_server)
            if self.together:
                row["together"] = self.together
        return row


def jobs_by_workload(
    jobs: Iterable[Job],
    configuration: Configuration,
    units: Units,
    *,
    places: bool,
    gangs: bool,
) -> _Workloads:
    """Return one workload for each tenant, place and shape, with its jobs and the tasks that each adds.

    With `gangs` what starts together is one task of several pieces, if these are of two kinds at most.
    Licences are one piece of a job. Where the policy places nothing, a job with licences is one task.
    """
    found: _Workloads = {}
    for parts in started_together(jobs):
        if gangs and is_gang(parts, units):
            kinds = kinds_of(parts, units)
            workload = _workload(parts[0], kinds, configuration, units, places=places)
            tasks = [1] + [0] * (len(parts) - 1)
            found.setdefault(workload, []).extend(zip(parts, tasks))
            continue
        for job in parts:
            one, whole = _counted(job.demand, units), _counted(job.total, units)
            if job.licences and whole and (not places or not one):
                workload = _workload(job, {whole: 1}, configuration, units, places=places)
                found.setdefault(workload, []).append((job, 1))
            elif one:
                workload = _workload(job, {one: 1}, configuration, units, places=places)
                found.setdefault(workload, []).append((job, job.tasks))
    return found


def rows_of(workloads: _Workloads, class_label: str) -> list[dict[str, str]]:
    """Return workloads as the service imports them, with as many tasks as their jobs add."""
    return [
        each.row(sum(tasks for _, tasks in workloads[each]), class_label)
        for each in sorted(workloads)
    ]


def is_gang(parts: Sequence[Job], units: Units) -> bool:
    """Return true if jobs that start together can be one task of several pieces."""
    kinds = kinds_of(parts, units)
    places = {(job.where, job.selects) for job in parts}
    return len(kinds) <= _MOST_KINDS and sum(kinds.values()) > 1 and len(places) == 1


def can_have_licences(parts: Sequence[Job], units: Units, *, places: bool) -> bool:
    """Return true if the rows of jobs that start together can have their licences.

    Where the policy puts tasks on servers, only a gang can have both nodes and licences.
    """
    on_nodes = any(_counted(job.demand, units) for job in parts)
    return not places or not on_nodes or is_gang(parts, units)


def kinds_of(parts: Sequence[Job], units: Units) -> dict[_Demand, int]:
    """Return the number of pieces that start together, by their demand.

    Their licences are one piece.
    """
    kinds: Counter[_Demand] = Counter()
    for job in parts:
        counted = _counted(job.demand, units)
        if counted and not job.splits:
            kinds[counted] += job.tasks
    if licences := _counted(all_licences(parts), units):
        kinds[licences] += 1
    return dict(sorted(kinds.items()))


def _counted(demand: Amounts, units: Units) -> _Demand:
    """Return what the pool counts of a demand."""
    return tuple(
        (name, demand[name]) for name in sorted(demand) if name in units.names and demand[name]
    )


def _workload(
    job: Job,
    kinds: Mapping[_Demand, int],
    configuration: Configuration,
    units: Units,
    *,
    places: bool,
) -> _Workload:
    """Return the workload of a job, or of all that start together with it."""
    where = job.where if places else ()
    selects = job.selects if places else ()
    # A type that the pool counts as a resource needs no label.
    selects = tuple(each for each in selects if not _counts_types(each[0], job, units))
    pieces = [(count, dict(demand)) for demand, count in kinds.items()]
    licences = any(name.startswith(LICENCE_PREFIX) for demand in kinds for name, _ in demand)
    # The server of the licences is on no switch.
    together = job.together if places and sum(kinds.values()) > 1 and not licences else ""
    # The name is of the nodes alone.
    name = workload_name(
        configuration.name, where, pieces, units, selects=selects, together=together
    )
    if licences:
        where = tuple(sorted({*where, LICENCE_CLASS})) if where else ()
        selects = tuple((label, (*values, LICENCE_CLASS)) for label, values in selects)
    return _Workload(
        configuration.tenant_of(job.account),
        where,
        selects,
        tuple(
            (count, tuple(sorted(units.to_pool(demand, up=True).items())))
            for count, demand in pieces
        ),
        job.per_server,
        together,
        name,
    )


def _counts_types(label: str, job: Job, units: Units) -> bool:
    """Return true if the pool has a resource for each type that a job has of a generic resource."""
    prefix = f"{label.removeprefix(TYPES)}_"
    names = [name for name in job.demand if name.startswith(prefix)]
    return bool(names) and set(names) <= set(units.names)


def emptied(workload: Mapping[str, Any]) -> dict[str, str]:
    """Return the row by which a workload has 0 tasks from now on."""
    selector = {
        label: value if isinstance(value, str) else "|".join(value)
        for label, value in workload["server_selector"].items()
    }
    return {
        "tenant": workload["tenant"],
        "name": workload["name"],
        "tasks": "0",
        "priority": str(workload["priority"]),
        **{f"selector.{label}": value for label, value in selector.items()},
        **{
            f"demand.{resource}": f"{Decimal(str(amount)):f}"
            for resource, amount in workload["demand"].items()
        },
    }


def workload_name(
    agent: str,
    where: tuple[str, ...],
    pieces: Sequence[tuple[int, Amounts]],
    units: Units,
    *,
    selects: Sequence[tuple[str, tuple[str, ...]]] = (),
    together: str = "",
) -> str:
    """Return a name that states the place and the shape, such as `slurm-lab/big/cpu=1,memory=256Mi`.

    Several pieces are as in `slurm-lab/any/4 x cpu=2`, on servers of one switch as in
    `slurm-lab/any/4 x cpu=2 in one switch`, types as in `slurm-lab/any,gres.gpu=a100/gpu=1`.
    """
    shape = " and ".join(
        (f"{count} x " if sum(count for count, _ in pieces) > 1 else "") + _shape(demand, units)
        for count, demand in pieces
    )
    if together:
        shape += f" in one {together}"
    labels = (f"{label}={'+'.join(values)}" for label, values in selects)
    place = ",".join(["+".join(where) or "any", *labels])
    name = f"{agent}/{place}/{shape}"
    if len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        name = f"{name[: _LONGEST_NAME - 13]}-{digest}"
    return name


def _shape(demand: Amounts, units: Units) -> str:
    """Return what the pool counts of a demand, an empty text for nothing."""
    return ",".join(f"{name}={_shown(name, amount)}" for name, amount in _counted(demand, units))


def csv_text(rows: list[Mapping[str, str]] | list[dict[str, str]]) -> str:
    """Return rows as CSV, whose columns are those that any row has."""
    columns = sorted({column for row in rows for column in row})
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _shown(name: str, amount: Fraction) -> str:
    if name == "memory" and (amount / MEBIBYTE).denominator == 1:
        return f"{amount // MEBIBYTE}Mi"
    return decimal_text(amount)
