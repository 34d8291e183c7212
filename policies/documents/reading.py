"""Reading an answer's JSON back into the allocation that it was written from, to put it to the proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.documents.certificate import certificate_from_document
from policies.documents.history import history_from_document
from policies.documents.schedule import schedule_from_document
from policies.errors import ProblemError
from policies.filling.ranges import ranges_of
from policies.model.allocation import Allocation
from policies.model.history import History
from policies.model.policy import Choice, Servers
from policies.model.problem import Problem
from policies.model.server_classes import each_row_alone, one_class, server_ranges
from policies.proofs.long_term_step import levels_reached, reasons_not_to_run
from policies.proofs.pool_of_tasks import shares_counted


def allocation_from_document(
    document: Mapping[str, Any], problem: Problem, choice: Choice
) -> Allocation:
    """Read what :func:`policies.allocation_to_document` wrote.

    Parameters
    ----------
    document : mapping
        The answer, with everything it can include: ``placements`` where the policy places,
        ``certificate`` and ``schedule`` where it has them.
    problem : Problem
        The problem that was solved.
    choice : Choice
        The policy, mode and options that answered it.

    Returns
    -------
    Allocation
        The answer, ready for ``verify``.

    Raises
    ------
    ProblemError
        ``answer.malformed`` (or ``history.*``, ``certificate.malformed``, ``schedule.malformed``).

    Examples
    --------
    >>> from policies import (
    ...     Problem, allocation_from_document, allocation_to_document, choose, solve, verify)
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> document = allocation_to_document(solve(problem, "drf"), include=["certificate"])
    >>> verify(problem, allocation_from_document(document, problem, choose("drf"))).valid
    True
    """
    try:
        return _allocation(document, problem, choice)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, ProblemError):
            raise
        raise ProblemError(
            "answer.malformed", f"the answer cannot be read: {error!r}", "/allocations"
        ) from error


def _allocation(document: Mapping[str, Any], problem: Problem, choice: Choice) -> Allocation:
    index = _workload_index(problem)
    rows = {_key(row): row for row in document["allocations"]}
    if rows.keys() != index.keys() or len(document["allocations"]) != problem.n:
        raise ProblemError(
            "answer.malformed",
            "the workloads of the answer differ from those of the problem",
            "/allocations",
        )
    ordered = [rows[key] for key in index]
    tasks = np.array([row["tasks"] for row in ordered], dtype=np.float64)
    summary, certificate = document["summary"], document.get("certificate")
    history = None
    if "history" in document:
        history = history_from_document(document["history"], problem.tenants, problem.resources)
    parts: dict[str, Any] = {
        "choice": choice,
        "tasks": tasks,
        "level": _levels(problem, choice, tasks, history),
        "limited_by": tuple(str(row["limited_by"]) for row in ordered),
        "certificate": None if certificate is None else certificate_from_document(certificate),
        "history": history,
        **{name: _number(summary[name]) for name in ("objective", "bound", "gap")},
    }
    if document.get("schedule") is not None:
        parts["schedule"] = schedule_from_document(
            problem, document["schedule"], packed=not choice.sees_one_pool
        )
    on_servers = not choice.sees_one_pool
    if on_servers and "placements" not in document:
        raise ProblemError(
            "answer.malformed", "the answer does not say where tasks run", "/placements"
        )
    placed = _placements(document["placements"] if on_servers else [], problem, index)
    workload, row, offset, servers, each = placed
    if choice.policy.servers[choice.mode] is not Servers.RANGES or not on_servers:
        return Allocation.from_parts(
            problem,
            placement_workload=workload,
            placement_row=row,
            placement_each=each,
            **parts,
        )
    rows_alone = each_row_alone(problem)
    row_of = np.repeat(np.arange(rows_alone.count), rows_alone.servers)
    edge = np.cumsum(rows_alone.servers) - rows_alone.servers
    which = np.repeat(np.arange(len(row)), servers)
    within = np.arange(servers.sum()) - np.repeat(np.cumsum(servers) - servers, servers)
    server = (edge[rows_alone.class_of_row[row]] + offset)[which] + within
    key, inverse = np.unique(server * problem.n + workload[which], return_inverse=True)
    start = np.searchsorted(key // max(problem.n, 1), np.arange(len(row_of) + 1))
    summed = grouped_sum(each[which], inverse, len(key))
    sizes, of_workload, of_range, total = ranges_of(row_of, start, key % max(problem.n, 1), summed)
    return Allocation(
        problem=problem,
        classes=server_ranges(problem, sizes) if len(sizes) else one_class(problem),
        placement_workload=of_workload,
        placement_class=of_range,
        placement_tasks=total,
        **parts,
    )


def _levels(
    problem: Problem, choice: Choice, tasks: FloatArray, history: History | None
) -> FloatArray:
    """(t,) levels are not written: where anything is proven of them they follow from the rest."""
    if choice.policy.long_term and history is not None:
        runnable = reasons_not_to_run(problem, choice) == ""
        return levels_reached(problem, choice.policy, history, runnable)
    counted = shares_counted(problem, choice, tasks) + problem.prior_share
    level: FloatArray = counted / problem.effective_weight
    return level


def _workload_index(problem: Problem) -> dict[tuple[str, str], int]:
    owners = [problem.tenants[i] for i in problem.workload_tenant.tolist()]
    names = zip(owners, problem.workload_names, strict=True)
    return {key: j for j, key in enumerate(names)}


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row["tenant"]), str(row["workload"]["name"])


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _placements(
    rows: Sequence[Mapping[str, Any]], problem: Problem, index: Mapping[tuple[str, str], int]
) -> tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]:
    """(p,) workload, row, offset, servers and tasks on each."""
    row_of = {name: row for row, name in enumerate(problem.server_names)}
    columns: list[tuple[int, int, int, int]] = []
    for item in rows:
        first = item["server"] if "server" in item else item["servers"]["first"]
        count = 1 if "server" in item else int(item["servers"]["count"])
        row, offset = _server(str(first), row_of, problem)
        if count < 1 or offset + count > problem.server_count[row]:
            raise ProblemError(
                "answer.malformed", f"there are not {count} servers from {first!r}", "/placements"
            )
        columns.append((index[_key(item)], row, offset, count))
    workload, row_, offset_, servers = np.array(columns, dtype=np.int64).reshape(-1, 4).T
    each = np.array([item["tasks"] for item in rows], dtype=np.float64)
    return workload, row_, offset_, servers, each


def _server(name: str, row_of: Mapping[str, int], problem: Problem) -> tuple[int, int]:
    """Row and position of a server: a row of one has its name, those of others are numbered."""
    row = row_of.get(name)
    if row is not None and problem.server_count[row] == 1:
        return row, 0
    stem, _, number = name.rpartition("-")
    if stem in row_of and number.isdecimal() and int(number) >= 1:
        return row_of[stem], int(number) - 1
    raise ProblemError("answer.malformed", f"there is no server {name!r}", "/placements")
