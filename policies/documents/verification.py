"""Verification of an answer as it is written, with all numbers that follow from others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from policies import catalogue
from policies.arrays import FloatArray, grouped_sum
from policies.documents.floors import guarantees_unmet
from policies.documents.problem import ParsedProblem
from policies.documents.reading import allocation_from_document
from policies.errors import ProblemError
from policies.model.allocation import Allocation, Floors
from policies.model.policy import Choice
from policies.model.server_names import NumberedServers
from policies.model.tolerance import AGREEMENT
from policies.verification.checks import Check
from policies.verification.fits import LARGEST
from policies.verification.options import check_options
from policies.verification.rounds import held_by_tenants
from policies.verification.stated import Stated
from policies.verification.verify import Verification, verify

# Parts of answers that are not judged.
UNJUDGED = ("explanations", "properties")
DIVISIBLE_ON_SERVERS = Choice(catalogue.DRFH, "divisible")


def verify_answer(
    parsed: ParsedProblem, document: Mapping[str, Any], choice: Choice
) -> Verification:
    """Verify an answer that was written as JSON, against the problem that it claims to answer.

    Parameters
    ----------
    parsed : ParsedProblem
        The evaluation, read.
    document : mapping
        The answer, with everything that its policy promises.
    choice : Choice
        The policy, mode and options that answered.

    Returns
    -------
    Verification
        The checks of :func:`policies.verify`, and that every other number follows from the tasks.

        An answer that cannot be read is not valid: its one check is ``readable``, or ``options`` where
        the choice has options that the policy does not take.

    Examples
    --------
    >>> from policies import (
    ...     ParsedProblem, Problem, allocation_to_document, choose, solve, verify_answer)
    >>> problem = Problem.create(resources=["cpu", "memory"], capacity=[[9, 18]],
    ...     tenants=["A", "B"], demand=[[1, 4], [3, 1]])
    >>> document = allocation_to_document(solve(problem, "drf"), include=["certificate"])
    >>> verify_answer(ParsedProblem(problem, "drf"), document, choose("drf")).valid
    True
    >>> document["summary"]["utilization"]["cpu"] = 0.5
    >>> verify_answer(ParsedProblem(problem, "drf"), document, choose("drf")).valid
    False
    """
    options = check_options(parsed.problem, choice)
    if not options.holds:
        return Verification(False, (options,))
    try:
        with np.errstate(all="ignore"):  # what overflows is refused by its check
            allocation = allocation_from_document(document, parsed.problem, choice)
    except ProblemError as error:
        detail = f"{error.pointer or '/'}: {error.detail} ({error.code})"
        return Verification(False, (Check("readable", False, detail, 0.0),))
    checks = list(verify(parsed.problem, allocation, parsed.history, parsed.running).checks)
    # These follow from the tasks, which have to be right before.
    if all(check.holds for check in checks):
        with np.errstate(all="ignore"):
            stated = Stated(parsed.problem.placed_by(choice), choice)
            checks += _check_claims(document, stated, allocation)
    return Verification(all(check.holds for check in checks), tuple(checks))


def _check_claims(
    document: Mapping[str, Any], stated: Stated, allocation: Allocation
) -> Iterator[Check]:
    """Check what an answer states beside what its policy promises, as far as it is there."""
    problem = stated.problem
    others = [name for name in UNJUDGED if document.get(name)]
    detail = "the answer has no part that is not judged"
    yield Check("parts", not others, f"{detail}: {', '.join(others)}" if others else detail, 0.0)
    given = document.get("policy")
    agrees = given is None or (
        given.get("name") == allocation.policy.name
        and (given.get("mode") or allocation.mode) == allocation.mode
        and (given.get("options") or {}) == dict(allocation.options)
    )
    yield Check("policy", agrees, "it names the policy by which it is verified", 0.0)
    index = {
        (problem.tenants[i], name): j
        for j, (i, name) in enumerate(
            zip(problem.workload_tenant.tolist(), problem.workload_names, strict=True)
        )
    }
    share = grouped_sum(allocation.tasks * stated.dominant, problem.workload_tenant, problem.t)
    weighted = np.where(stated.late, np.nan, share / stated.weight)
    wrong = [
        f"{row['tenant']}/{row['workload']['name']}"
        for row in document["allocations"]
        if not _row_agrees(
            row, index[row["tenant"], row["workload"]["name"]], stated, weighted, allocation.floors
        )
    ]
    yield _found("allocation_rows", wrong, "resources and shares follow from the tasks")
    expected = _summary(stated, allocation, weighted)
    summary = document["summary"]
    wrong = [name for name, value in expected.items() if not _same(summary.get(name, value), value)]
    if not _unmet_agree(summary.get("guarantees_unmet"), guarantees_unmet(allocation)):
        wrong.append("guarantees_unmet")
    yield _found("summary", wrong, "the summary follows from the allocations")
    yield _found(
        "group_rows",
        _wrong_groups(document.get("groups"), stated, allocation),
        "levels and resources of groups follow from the tasks of their tenants",
    )
    servers = _ServerRows(stated)
    wrong = [
        f"{row['tenant']}/{row['workload']['name']}"
        for row in document.get("placements") or []
        if not servers.agree(row, index[row["tenant"], row["workload"]["name"]])
    ]
    yield _found(
        "placement_rows", wrong, "resources of placements follow from their tasks or pieces"
    )
    certificate = document.get("certificate") or {}
    if "servers" in certificate:
        rows = stated.places().place_of_row.tolist()
        names: list[list[str]] = [[] for _ in range(max(rows, default=-1) + 1)]
        for place, name in zip(rows, problem.server_names, strict=True):
            if place >= 0:
                names[place].append(name)
        agrees = [sorted(each) for each in certificate["servers"]] == list(map(sorted, names))
        yield Check(
            "price_rows", agrees, "rows of prices are about the servers that they name", 0.0
        )
    if allocation.history is not None:
        yield _found(
            "sharing_degrees",
            _wrong_degrees(document["history"]["tenants"], stated, allocation),
            "sharing degrees follow from what was used and would have been used alone",
        )


def _found(name: str, wrong: list[str], detail: str) -> Check:
    return Check(name, not wrong, f"not so for {wrong[0]!r}: {detail}" if wrong else detail, 0.0)


def _same(given: Any, expected: Any) -> bool:
    """Return whether two values agree, numbers to a billionth.

    Members that are left out are not compared.
    """
    if isinstance(expected, Mapping):
        return isinstance(given, Mapping) and all(
            name in expected and _same(value, expected[name]) for name, value in given.items()
        )
    if isinstance(given, bool) or isinstance(expected, bool):
        return given is expected
    if isinstance(expected, float | int) and isinstance(given, float | int):
        # Python compares an integer beyond float64 exactly; infinity and NaN agree with nothing.
        finite = abs(given) <= LARGEST and abs(expected) <= LARGEST
        return finite and abs(given - expected) <= AGREEMENT * max(abs(given), abs(expected))
    return type(given) is type(expected) and bool(given == expected)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _amounts(stated: Stated, values: FloatArray) -> dict[str, float]:
    return dict(zip(stated.problem.resources, values.tolist(), strict=True))


def _row_agrees(
    row: Mapping[str, Any], j: int, stated: Stated, weighted: FloatArray, floors: Floors | None
) -> bool:
    problem = stated.problem
    dominant = stated.task_shares[j] if stated.dominant[j] > 0 else problem.demand[j]
    expected = {
        "resources": _amounts(stated, row["tasks"] * problem.demand[j]),
        "dominant_resource": problem.resources[int(dominant.argmax())],
        "dominant_share": float(row["tasks"] * stated.dominant[j]),
        "weighted_share": _number(weighted[problem.workload_tenant[j]]),
    }
    if floors is not None and floors.floor[j]:
        expected["floor"] = float(floors.floor[j])
        expected["floor_met"] = min(float(floors.met[j] / floors.floor[j]), 1.0)
    elif row.get("floor") is not None or row.get("floor_met") is not None:
        return False
    return all(_same(row.get(name, value), value) for name, value in expected.items())


def _summary(stated: Stated, allocation: Allocation, weighted: FloatArray) -> dict[str, Any]:
    problem = stated.problem
    shares = weighted[np.isfinite(weighted)]
    jain = None
    if shares.max(initial=0.0) > 0:
        parts = shares / shares.max()
        jain = float(parts.sum()) ** 2 / (len(parts) * float((parts**2).sum()))
    return {
        "tenants": problem.t,
        "workloads": problem.n,
        "servers": int(problem.server_count[~problem.contributed_only].sum()),
        "server_classes": Stated(problem, DIVISIBLE_ON_SERVERS).places().count,
        "min_weighted_share": float(shares.min()) if len(shares) else None,
        "mean_weighted_share": float(shares.mean()) if len(shares) else None,
        "jain_index": jain,
        "utilization": _amounts(stated, stated.shares(allocation.tasks @ problem.demand)),
    }


def _unmet_agree(given: Any, expected: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if an answer names the guarantees that it does not meet, or none at all."""
    if given is None:
        return True
    return len(given) == len(expected) and all(map(_same_unmet, given, expected))


def _same_unmet(given: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    exactly = {name: value for name, value in expected.items() if name != "met"}
    return {name: value for name, value in given.items() if name != "met"} == exactly and _same(
        given.get("met"), expected["met"]
    )


def _wrong_groups(
    rows: Sequence[Mapping[str, Any]] | None, stated: Stated, allocation: Allocation
) -> list[str]:
    """Return the names of groups whose rows do not follow from the tasks.

    Rows that are left out are not judged.
    """
    problem = stated.problem
    if rows is None:
        return []
    if [row["name"] for row in rows] != list(problem.groups):
        return ["groups"]
    below = stated.tenants_below_groups
    held, by_sum = held_by_tenants(stated, allocation)
    used = np.zeros((problem.t, problem.m))
    np.add.at(used, problem.workload_tenant, allocation.tasks[:, None] * problem.demand)
    wrong = []
    for row, mine, weight in zip(rows, below, stated.group_weights, strict=True):
        vector = held[mine].sum(axis=0)
        level = float(vector.sum() if by_sum else vector.max(initial=0.0)) / weight
        last = -1
        if allocation.certificate is not None and mine:
            last = int(allocation.certificate.frozen_in[mine].max())
        expected = {
            "level": level if mine else None,
            "resources": _amounts(stated, used[mine].sum(axis=0)),
            "frozen_in": last if last >= 0 else None,
        }
        if not all(_same(row.get(name, value), value) for name, value in expected.items()):
            wrong.append(str(row["name"]))
    return wrong


class _ServerRows:
    """Server descriptions in rows of placements, apart from the number of tasks."""

    def __init__(self, stated: Stated) -> None:
        self._stated, self._problem = stated, stated.problem
        self._kind = stated.problem.server_kind
        self._numbered = NumberedServers(self._problem)

    def agree(self, row: Mapping[str, Any], j: int) -> bool:
        """Return whether a row's amounts follow from its tasks and its servers are as described."""
        kinds = self._stated.pieces.of(j)
        number = row["pieces" if j in self._problem.gangs else "tasks"]
        demand = self._stated.pieces.demand[kinds[row.get("kind", 0)]]
        resources = _amounts(self._stated, number * demand)
        if not _same(row.get("resources", resources), resources):
            return False
        servers = row.get("servers")
        if servers is None:
            return True
        k, offset = self._numbered.position(str(servers["first"]))
        last = int(self._problem.first_server[k]) + offset + int(servers["count"]) - 1
        expected = {
            "capacity": _amounts(self._stated, self._problem.capacity[k]),
            "labels": dict(self._problem.server_labels[k]),
            "last": self._numbered.name(last),
        }
        return bool(self._kind[k] == self._kind[self._numbered.row(last)]) and all(
            _same(servers.get(name, value), value) for name, value in expected.items()
        )


def _wrong_degrees(tenants: Mapping[str, Any], stated: Stated, allocation: Allocation) -> list[str]:
    history, wrong = allocation.history, []
    for i, name in enumerate(stated.problem.tenants):
        row = tenants.get(name, {})
        if history is None:
            continue
        tables = [(row, history.alone[i])]
        if history.literal_alone is not None and row.get("literal"):
            tables.append((row["literal"], history.literal_alone[i]))
        for given, alone in tables:
            degree = given.get("sharing_degree")
            if degree is not None and not _same(degree, _degree(stated, history.used[i], alone)):
                wrong.append(name)
    return wrong


def _degree(stated: Stated, used: FloatArray, alone: FloatArray) -> dict[str, Any]:
    names = stated.problem.resources
    by_resource = {
        name: min(u / a, LARGEST) if a > 0 else None
        for name, u, a in zip(names, used.tolist(), alone.tolist(), strict=True)
    }
    some = [degree for degree in by_resource.values() if degree is not None]
    absent = [name for name, degree in by_resource.items() if degree is None]
    degree: dict[str, Any] = {"resources": by_resource, "min": min(some, default=None)}
    if absent:
        degree["reason"] = f"alone it would have used no {', '.join(absent)}"
    return degree
