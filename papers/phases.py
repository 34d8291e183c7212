"""Jobs in phases, such as reduce tasks after map tasks or one query after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from papers.arrays import FloatArray
from policies.simulation import Simulation, Trace


@dataclass(frozen=True, eq=False)
class Phase:
    """Tasks that are submitted together.

    Attributes:
        workload: of which they are; duration: (c,) seconds of each.
        at: seconds before which they are not submitted.
        after: positions of the phases that are done before; delay: seconds from there on.
    """

    workload: int
    duration: FloatArray
    at: float = 0.0
    after: tuple[int, ...] = field(default=())
    delay: float = 0.0


@dataclass(frozen=True, eq=False)
class PhasesResult:
    """Result of phases.

    Attributes:
        simulation: all of it; begun, done: (p,) seconds at which each was submitted, and its last task
            ended.
    """

    simulation: Simulation
    begun: FloatArray
    done: FloatArray


def play(phases: Sequence[Phase], run: Callable[[Trace], Simulation]) -> PhasesResult:
    """Run phases, each submitted as soon as those before it are done.

    A simulation takes times of submission and not what they wait for. So it runs anew each time a
    phase can be added: what happened before that phase is submitted stays as it was, to the last bit.

    Args:
        phases: a phase waits for earlier ones only.
        run: simulates a trace of which all tasks end.
    """
    begun = np.array([np.nan if phase.after else phase.at for phase in phases])
    while True:
        known = np.flatnonzero(~np.isnan(begun)).tolist()
        counts = np.array([len(phases[p].duration) for p in known])
        simulation = run(
            Trace.create(
                workload=np.repeat([phases[p].workload for p in known], counts),
                submit=np.repeat(begun[known], counts),
                duration=np.concatenate([phases[p].duration for p in known]),
                job=np.repeat(known, counts),
            )
        )
        done = np.full(len(phases), np.nan)
        # fmax, as maximum would keep the NaN of the beginning.
        np.fmax.at(done, np.repeat(known, counts), simulation.end)
        ready: dict[int, tuple[float, float]] = {}
        for p in np.flatnonzero(np.isnan(begun)).tolist():
            before = float(done[list(phases[p].after)].max())
            if not np.isnan(before):
                ready[p] = max(phases[p].at, before + phases[p].delay), before
        if not ready:
            return PhasesResult(simulation, begun, done)
        first = min(at for at, _ in ready.values())
        for p, (at, before) in ready.items():
            # What was over by then is over, whatever is submitted from then on.
            if before <= first:
                begun[p] = at


def demand_over_time(ran: Simulation, times: FloatArray) -> FloatArray:
    """Return the demand (len(times), t, m) of tasks that wait or run."""
    problem, trace = ran.problem, ran.trace
    found = np.zeros((len(times), problem.t, problem.m))
    for job in range(problem.n):
        of = trace.workload == job
        submitted = np.searchsorted(np.sort(trace.submit[of]), times, side="right")
        ended = np.searchsorted(np.sort(ran.end[of]), times, side="right")
        found[:, problem.workload_tenant[job]] += (submitted - ended)[:, None] * problem.demand[job]
    return found
