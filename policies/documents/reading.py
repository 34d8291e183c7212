"""Reading an answer's JSON back into the allocation that it was written from, to put it to the proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from policies.arrays import FloatArray, IntArray, grouped_sum
from policies.documents.answer_fields import AnswerDocument, FloorsDocument, read_fields
from policies.documents.certificate import read_certificate
from policies.documents.history import history_from_document
from policies.documents.schedule import read_schedule
from policies.errors import ProblemError
from policies.model.allocation import Allocation, Floors
from policies.model.policy import Choice, Servers
from policies.model.problem import Problem
from policies.model.server_classes import ServerClasses
from policies.model.server_names import NumberedServers
from policies.verification.floors import floors_of
from policies.verification.levels import levels_of
from policies.verification.places import Places
from policies.verification.stated import Stated


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
    answer = read_fields(AnswerDocument, document, "answer.malformed")
    problem = problem.placed_by(choice)
    index = _workload_index(problem)
    rows = {_key(row): row for row in answer["allocations"]}
    # By number as well, because a workload that is listed twice is one key.
    if rows.keys() != index.keys() or len(answer["allocations"]) != problem.n:
        raise _malformed(
            "the workloads of the answer differ from those of the problem", "/allocations"
        )
    stated = Stated(problem, choice)
    places, workload, place, on_place = _placed(answer, stated, index)
    ordered = [rows[key] for key in index]
    tasks = np.array([row["tasks"] for row in ordered], dtype=np.float64)
    summary, certificate, schedule = answer["summary"], answer["certificate"], answer["schedule"]
    history = None
    if answer["history"] is not None:
        history = history_from_document(answer["history"], problem.tenants, problem.resources)
    return Allocation(
        problem=problem,
        choice=choice,
        tasks=tasks,
        classes=ServerClasses(
            places.place_of_row,
            places.row,
            places.servers,
            places.capacity,
            places.allowed[: problem.n],
            places.offset,
        ),
        placement_piece=workload,
        placement_class=place,
        placement_tasks=on_place,
        level=levels_of(stated, tasks, history),
        limited_by=tuple(row["limited_by"] for row in ordered),
        certificate=None if certificate is None else read_certificate(certificate),
        moved=summary["moved_tasks"],
        history=history,
        schedule=None
        if schedule is None
        else read_schedule(problem, schedule, packed=not choice.sees_one_pool),
        objective=_number(summary["objective"]),
        bound=_number(summary["bound"]),
        gap=_number(summary["gap"]),
        statistics={"stopped": summary["stopped"]},
        floors=None
        if answer["floors"] is None or not problem.has_floors
        else _floors(answer["floors"], stated),
    )


def floors_from_document(document: Mapping[str, Any], problem: Problem, choice: Choice) -> Floors:
    """Read what :func:`policies.floors_to_document` wrote.

    Parameters
    ----------
    document : mapping
        The answers of all steps.
    problem : Problem
        The problem with the guarantees.
    choice : Choice
        What answered it.

    Returns
    -------
    Floors
        The answers, ready for ``verify``.

    Raises
    ------
    ProblemError
        ``answer.malformed``.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import (
    ...     Guarantee, Problem, choose, floors_from_document, floors_to_document, solve)
    >>> problem = Problem.create(resources=["gpu"], capacity=[[8]], tenants=["A"], demand=[[1]],
    ...     guarantees=[Guarantee("tenant", 0, np.array([4.0]))])
    >>> document = floors_to_document(solve(problem, "drfh").floors)
    >>> floors_from_document(document, problem, choose("drfh")).floor.tolist()
    [4.0]
    """
    given = read_fields(FloorsDocument, document, "answer.malformed", name="floors")
    return _floors(given, Stated(problem, choice))


def floors_renamed(
    floors: Floors, problem: Problem, choice: Choice, reason: Callable[[str], str]
) -> Floors:
    """Return floors as those of the same problem under other names.

    Parameters
    ----------
    floors : Floors
        The answers of all steps.
    problem : Problem
        The problem with the guarantees. Only names of tenants, groups, workloads, servers and labels
        differ from the problem that was solved.
    choice : Choice
        What answered it.
    reason : callable
        Returns an entry of ``limited_by`` under the other names.

    Returns
    -------
    Floors
        The same answers, whose problems have the other names.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Guarantee, Problem, choose, floors_renamed, solve
    >>> first, other = (
    ...     Problem.create(resources=["gpu"], capacity=[[8]], tenants=[name], demand=[[1]],
    ...         guarantees=[Guarantee("tenant", 0, np.array([4.0]))])
    ...     for name in ("A", "member-1"))
    >>> floors = floors_renamed(solve(first, "drfh").floors, other, choose("drfh"), str)
    >>> floors.raised.problem.tenants, floors.floor.tolist()
    (('member-1', 'part0'), [4.0])
    """

    def renamed(answer: Allocation, step: Problem) -> Allocation:
        inner = answer.floors
        return replace(
            answer,
            problem=step,
            limited_by=tuple(map(reason, answer.limited_by)),
            floors=None if inner is None else floors_renamed(inner, step, answer.choice, reason),
        )

    def of_pool(pool: int, step: Problem | None, _: Choice) -> Allocation | None:
        answer = floors.pools[pool]
        return None if answer is None or step is None else renamed(answer, step)

    return floors_of(
        Stated(problem, choice),
        of_pool,
        lambda step: renamed(floors.raised, step),
        lambda step: renamed(floors.rest, step),
    )


def _floors(given: Mapping[str, Any], stated: Stated) -> Floors:
    pools = given["pools"]

    def read(pool: int, problem: Problem | None, choice: Choice) -> Allocation | None:
        if pool >= len(pools) or (problem is None) != (pools[pool] is None):
            raise _malformed(
                "each guarantee of several workloads needs the answer of its pool", "/floors/pools"
            )
        return None if problem is None else allocation_from_document(pools[pool], problem, choice)

    return floors_of(
        stated,
        read,
        lambda problem: allocation_from_document(given["raised"], problem, stated.choice),
        lambda problem: allocation_from_document(given["rest"], problem, stated.choice),
    )


_Rows = tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]
_OnPlaces = tuple[Places, IntArray, IntArray, FloatArray]


def _placed(
    answer: Mapping[str, Any], stated: Stated, index: Mapping[tuple[str, str], int]
) -> _OnPlaces:
    """Return the placements of an answer's fields, on the places that its policy sees."""
    choice = stated.choice
    if not choice.sees_one_pool and answer["placements"] is None:
        raise _malformed("expected placements, got null", "/placements")
    placed = _placements(answer["placements"] or [], stated.problem, index)
    # Whole tasks differ between servers of a class; divisible ones never do.
    if choice.policy.servers[choice.mode] is Servers.RANGES and not choice.sees_one_pool:
        return _on_ranges(stated, *placed)
    return _on_classes(stated, *placed)


def _on_ranges(
    stated: Stated,
    workload: IntArray,
    row: IntArray,
    offset: IntArray,
    servers: IntArray,
    each: FloatArray,
) -> _OnPlaces:
    """Return placements on ranges of servers.

    Rows are cut wherever a placement begins or ends.
    """
    counts = stated.problem.server_count
    begin = np.cumsum(counts) - counts
    offering = stated.rows.row
    # Rows that offer nothing have no place, and would be read as another row's.
    if not np.isin(row, offering).all():
        raise _malformed("tasks run where nothing is offered", "/placements")
    if (offset + servers > counts[row]).any():
        raise _malformed("a range of servers must end within its row", "/placements")
    edges = np.concatenate([begin[row] + offset, begin[row] + offset + servers])
    own = np.concatenate([begin[offering], begin[offering] + counts[offering]])
    # All edges at once: a range may begin inside another workload's.
    cuts = np.unique(np.concatenate([edges, own]))
    of_row = np.searchsorted(begin, cuts[:-1], side="right") - 1
    kept = np.isin(of_row, offering)
    start, size = cuts[:-1][kept], np.diff(cuts)[kept]
    places = stated.places(size)
    first = np.searchsorted(start, begin[row] + offset)
    last = np.searchsorted(start, begin[row] + offset + servers)
    which = np.repeat(np.arange(len(row)), last - first)
    within = np.arange(len(which)) - np.repeat(
        np.cumsum(last - first) - (last - first), last - first
    )
    place = first[which] + within
    return places, workload[which], place, each[which] * size[place]


def _on_classes(
    stated: Stated,
    workload: IntArray,
    row: IntArray,
    offset: IntArray,
    servers: IntArray,
    each: FloatArray,
) -> _OnPlaces:
    """Return placements on classes of servers, or on rows.

    Each server of a class or row must run the same. A range of a class is of one kind of servers,
    and continues over the following rows of that kind. Together, the ranges of a workload on a
    class have each of its servers once.
    """
    problem, places = stated.problem, stated.places()
    start = problem.first_server[row] + offset
    stop = start + servers
    ends = np.sort(problem.first_server + problem.server_count)
    last = np.argsort(problem.first_server)[np.searchsorted(ends, stop)]
    place = places.place_of_row[row]
    whole = (offset == 0) & np.isin(stop, ends)
    whole &= (problem.server_kind[row] == problem.server_kind[last]) & (place >= 0)
    whole &= places.place_of_row[last] == place
    keys, first, inverse = np.unique(
        workload * (places.count + 1) + place, return_index=True, return_inverse=True
    )
    even = each == each[first][inverse]
    of = keys % (places.count + 1)
    placed = grouped_sum(servers.astype(np.float64), inverse, len(keys))
    if not (whole & even).all() or not np.array_equal(placed, places.servers[of]):
        raise _malformed(
            "each server that is like another must run the same part of a workload, in one row",
            "/placements",
        )
    order = np.lexsort((start, workload))
    # Sorted by their start, two ranges overlap only if neighbours do.
    again = (workload[order][1:] == workload[order][:-1]) & (start[order][1:] < stop[order][:-1])
    if again.any():
        raise _malformed("a workload is placed twice", "/placements")
    return places, workload[first], of, each[first] * places.servers[of]


def _workload_index(problem: Problem) -> dict[tuple[str, str], int]:
    owners = [problem.tenants[i] for i in problem.workload_tenant.tolist()]
    names = zip(owners, problem.workload_names, strict=True)
    return {key: j for j, key in enumerate(names)}


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["tenant"], row["workload"]["name"]


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _placements(
    rows: Sequence[Mapping[str, Any]], problem: Problem, index: Mapping[tuple[str, str], int]
) -> _Rows:
    """Return the placements (p,) as five arrays.

    They are the kind of pieces, row, offset, servers, and tasks or pieces on each.
    """
    servers_from = int(problem.server_count.sum()) - problem.first_server
    numbered = NumberedServers(problem)
    columns: list[tuple[int, int, int, int]] = []
    placed: list[float] = []
    for number, item in enumerate(rows):
        where, range_ = f"/placements/{number}", item["servers"]
        if (item["server"] is None) == (range_ is None):
            raise _malformed("a placement needs either server or servers", where)
        first = item["server"] if range_ is None else range_["first"]
        count = 1 if range_ is None else range_["count"]
        try:
            row, offset = numbered.position(first)
        except KeyError:
            raise _malformed(f"there is no server {first[:80]!r}", where) from None
        if offset + count > servers_from[row]:
            raise _malformed(f"there are not {count} servers from {first[:80]!r}", where)
        workload = index.get(_key(item))
        if workload is None:
            raise _malformed("there is no such workload", where)
        kinds = problem.pieces.kinds(workload)
        if item["kind"] >= len(kinds):
            raise _malformed("there is no such kind of pieces", where)
        amount = "pieces" if workload in problem.gangs else "tasks"
        if item[amount] is None or (item["tasks"] is not None and item["pieces"] is not None):
            raise _malformed(f"a placement of this workload needs {amount}", where)
        columns.append((kinds[item["kind"]], row, offset, count))
        placed.append(item[amount])
    of, row_, offset_, servers = np.array(columns, dtype=np.int64).reshape(-1, 4).T
    each = np.array(placed, dtype=np.float64)
    return of, row_, offset_, servers, each


def _malformed(detail: str, pointer: str) -> ProblemError:
    return ProblemError("answer.malformed", detail, pointer)
