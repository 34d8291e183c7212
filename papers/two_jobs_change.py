"""DRF, Fig. 8: two jobs on 48 nodes whose tasks change twice."""

from __future__ import annotations

import numpy as np

from papers.arrays import FloatArray
from papers.finding import Figure, Finding, Line, Row, Verdict
from papers.words import claim, percent
from policies import Problem, solve

NODES, CAPACITY = 48, (4.0, 14.0)
# CPU and GB of a task of Job 1 and of Job 2, during two minutes each.
PHASES = (
    ((1.0, 10.0), (1.0, 1.0)),
    ((2.0, 4.0), (1.0, 3.0)),
    ((1.0, 7.0), (1.0, 4.0)),
)
MINUTES = 2
# The paper has "around", and unequal shares where tasks leave parts of nodes.
AROUND, NEARLY_EQUAL = 0.03, 0.05

NO_RAMP = (
    "The paper's curves change as tasks end and their nodes are offered again. Here each phase is the "
    "allocation of empty nodes, in which all tasks are of the phase."
)
WHOLE_NODES = (
    "Tasks are whole and nodes small: what a task of Job 1 leaves of a node goes to a smaller one of "
    "Job 2. The paper sees unequal shares for this reason in the third phase."
)


def reproduce_changing_jobs() -> Finding:
    """Allocate the cluster anew for each phase."""
    shares = np.array([_shares(demand) for demand in PHASES])  # phase, job, resource
    dominant = shares.max(axis=2)
    printed = {
        "first phase: Job 1's share of the memory": ("around 70 %", shares[0, 0, 1], 0.70),
        "first phase: Job 2's share of the CPU": ("around 75 %", shares[0, 1, 0], 0.75),
    }
    rows = [Row(what, text, percent(float(ours))) for what, (text, ours, _) in printed.items()]
    names = ("second phase: share of the CPU", "third phase: share of the memory")
    for phase, (name, r) in enumerate(zip(names, (0, 1), strict=True), 1):
        rows += [
            Row(f"{name}, Job {job + 1}", "a chart", percent(float(shares[phase, job, r])))
            for job in range(2)
        ]
    apart = np.abs(dominant[:, 0] - dominant[:, 1])
    claims = {
        "both dominant shares exceed a half in the first phase": bool((dominant[0] > 0.5).all()),
        "both jobs' dominant resource is the CPU in the second phase": bool(
            (shares[1].argmax(axis=1) == 0).all()
        ),
        "both jobs' dominant resource is the memory in the third phase": bool(
            (shares[2].argmax(axis=1) == 1).all()
        ),
        "dominant shares are nearly equal in every phase (within 5 points)": bool(
            (apart <= NEARLY_EQUAL).all()
        ),
    }
    unequal = [str(phase + 1) for phase in np.flatnonzero(apart > NEARLY_EQUAL).tolist()]
    rows += [claim(what, holds) for what, holds in claims.items()]
    close = [abs(ours - number) <= AROUND for _, ours, number in printed.values()]
    return Finding(
        name="drf-fig8",
        title="Two jobs whose tasks change",
        source="Ghodsi et al., NSDI 2011, Fig. 8",
        setting=f"{NODES} nodes of 4 CPUs and 14 GB; tasks of both jobs as printed for each phase, as "
        "many as fit. DRF is `drfh` with best-fit, the same on alike nodes.",
        rows=tuple(rows),
        differences=(
            NO_RAMP,
            WHOLE_NODES + f" Here they are unequal in phase: {', '.join(unequal) or 'none'}.",
        ),
        verdict=Verdict.of([*close, *claims.values()]),
        figures=(
            Figure(
                "drf-fig8", "Dominant shares of two jobs", "minutes", "dominant share",
                tuple(
                    Line(f"Job {job + 1}",
                         tuple(float(MINUTES * (phase + end)) for phase in range(len(PHASES))
                               for end in (0, 1)),
                         tuple(np.repeat(dominant[:, job], 2).tolist()))
                    for job in range(2)
                ),
            ),
        ),
    )  # fmt: skip


def _shares(demand: tuple[tuple[float, float], ...]) -> FloatArray:
    """Return the share (2, 2) of CPU and memory of each job."""
    problem = Problem.create(
        resources=("cpu", "memory"),
        capacity=[CAPACITY],
        server_count=[NODES],
        tenants=["Job 1", "Job 2"],
        demand=demand,
    )
    tasks = solve(problem, "drfh", mode="indivisible").tasks
    shares: FloatArray = tasks[:, None] * problem.demand_share
    return shares
