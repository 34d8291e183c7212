"""What an answer may not do, in fractions: slow, plain, and nothing of what it checks.

Also problems whose quantities are fractions that float64 numbers only stand for.
"""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from policies import Problem

# Each family of quantities, as fractions of which the float64 numbers are the nearest.
FAMILIES = {
    "tenths": [Fraction(a, 10) for a in (1, 2, 3, 6, 7, 9, 12, 21)],
    "ninths": [Fraction(a, 9) for a in (1, 2, 4, 5, 7, 10, 27, 45)],
    "thousandths": [Fraction(a, 1000) for a in (1, 3, 70, 333, 1001, 7007)],
    "tiny": [Fraction(a, 10**301) for a in (10, 20, 30, 33, 70)],
    "huge": [a * Fraction(10) ** 10 for a in (1, 2, 3, 33, 70)],
    "kibi": [Fraction(a, 2**20) for a in (1, 3, 7, 64, 1000)],
    # One unit in the last place above a decimal: no unit in common, they are what they are.
    "bits": [Fraction(float(np.nextafter(x, 9))) for x in (0.3, 0.7, 1.1, 2.3, 4.7)],
}


@st.composite
def exact_problems(draw, selectors=True, several=True):
    """(problem, its demands and its capacities of one server, as tables of fractions)."""
    m = draw(st.integers(1, 3))
    t, k = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n = draw(st.integers(1, 5)) if several else t
    families = [FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))] for _ in range(m)]

    def table(rows, zero):
        row = [st.sampled_from([*([Fraction(0)] * zero), *family]) for family in families]
        return [[draw(cell) for cell in row] for _ in range(rows)]

    capacity, demand = table(k, 1), table(n, 1)
    for row in demand:
        if not any(row):
            row[0] = families[0][0]
    zones = st.sampled_from("ab")
    fields = {}
    if selectors:
        fields["server_labels"] = [{"zone": draw(zones)} for _ in range(k)]
        choice = st.sampled_from([{}, {}, {"zone": "a"}, {"zone": "b"}])
        fields["selectors"] = draw(st.lists(choice, min_size=n, max_size=n))
    problem = Problem.create(
        resources=("cpu", "memory", "gpu")[:m],
        capacity=np.array([[float(x) for x in row] for row in capacity]),
        demand=[[float(x) for x in row] for row in demand],
        tenants=[f"u{i}" for i in range(t)],
        workload_tenant=draw(st.lists(st.integers(0, t - 1), min_size=n, max_size=n))
        if several
        else range(t),
        weight=draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=t, max_size=t)),
        server_count=draw(st.lists(st.sampled_from([1, 2, 3, 7]), min_size=k, max_size=k)),
        tasks=draw(st.lists(st.sampled_from([np.inf, 1, 2, 3, 10]), min_size=n, max_size=n)),
        **fields,
    )
    return problem, demand, capacity


def decimals(table):
    """A table of float64 numbers as the decimals that they are written as."""
    return [[Fraction(repr(x)) for x in row] for row in table.tolist()]


def broken(problem, answer, demand, capacity):
    """What the answer does that it may not, in words; nothing if all is well."""
    tasks = [Fraction(x) for x in answer.tasks.tolist()]
    for j, (run, has) in enumerate(zip(tasks, problem.tasks.tolist(), strict=True)):
        if run < 0:
            yield f"workload {j} runs less than nothing"
        if has != np.inf and run > Fraction(has):
            yield f"workload {j} runs more than its tasks"
        if answer.whole and run.denominator != 1:
            yield f"workload {j} runs part of a task"
    offered = [
        [Fraction(0) if gone else x for x in row]
        for row, gone in zip(capacity, problem.contributed_only.tolist(), strict=True)
    ]
    counts = problem.server_count.tolist()
    for r in range(problem.m):
        used = sum(run * row[r] for run, row in zip(tasks, demand, strict=True))
        has = sum(count * row[r] for count, row in zip(counts, offered, strict=True))
        if used > has:
            yield f"the pool has {float(used - has)} too little of resource {r}"
    yield from _broken_on_servers(problem, answer, demand, offered)
    for position, slot in enumerate(answer.schedule.tasks if answer.schedule else ()):
        for r in range(problem.m):
            used = sum(int(run) * row[r] for run, row in zip(slot, demand, strict=True))
            if used > sum(count * row[r] for count, row in zip(counts, offered, strict=True)):
                yield f"slot {position} is too full of resource {r}"


def _broken_on_servers(problem, answer, demand, offered):
    """On each server, all of a row or range alike; of whole tasks, on the row or range."""
    placed = {}
    workload, row, offset, servers, each = (x.tolist() for x in answer.placements_by_range())
    for j, where, first, count, run in zip(workload, row, offset, servers, each, strict=True):
        total = Fraction(run) * count
        if answer.whole:
            total = Fraction(round(total))
        if not answer.whole:
            total, count = Fraction(run), 1
        placed.setdefault((where, first, count), []).append((j, total))
    for (where, first, count), here in placed.items():
        for r in range(problem.m):
            used = sum(total * demand[j][r] for j, total in here)
            if used > count * offered[where][r]:
                yield f"row {where} is too full of resource {r} from server {first} on"
