"""H-MRF, Fig. 7: two jobs of map and reduce tasks, the second a minute after the first."""

from __future__ import annotations

import numpy as np

from papers.arrays import BoolArray, FloatArray
from papers.finding import Figure, Finding, Line, Row, Verdict
from papers.phases import Phase, PhasesResult, demand_over_time, play
from papers.words import claim
from policies import Problem
from policies.simulation import Simulation, Trace, simulate

SERVERS, CAPACITY = 59, (4.0, 15.0)
MAPS, REDUCES, SECOND_JOB = 640, 200, 60.0
# CPU and GB of a task: map and reduce tasks of Job 1 (Sort), then of Job 2 (WordCount).
DEMAND = ((2.0, 1.0), (3.0, 4.0), (4.0, 1.0), (2.0, 4.0))
MAP_SECONDS, REDUCE_SECONDS, DEVIATION, SEED = 15.0, 70.0, 0.1, 1
# From each printed number ours may be away by so much and count as the same.
CLOSE = 0.15

DURATIONS = (
    f"How long tasks run is not printed. Ours run for {MAP_SECONDS:g} s (map) and {REDUCE_SECONDS:g} s "
    "(reduce) in the median, log-normal, which gives the two jobs about the printed ratio of aggregates "
    "and an end near 670 s; every time here follows from that."
)
AT_ONCE = (
    "There containers start one heartbeat after the other, so that Job 1 has 1.84 times its part by the "
    "60th second. Here it has the whole cluster from the first instant: twice its part."
)
WHO_FITS = (
    "In Algorithm 1 the user whose turn it is waits until there is room for its task, and no other user "
    "begins a task meanwhile. Here room that is too small for it goes to the other user. A map task "
    "of Job 2 needs 4 CPUs, which is a whole node; a task of Job 1 that ends frees only 2 or 3. So "
    "Job 1 goes on beginning tasks while Job 2 is behind (the row above). Job 2 catches up later, and a "
    "user can be at a loss again."
)
UNIT = (
    "The unit of the printed aggregates is not stated; as CPUs and GB times seconds they would be "
    "seconds' worth of work. Only their ratio is compared."
)


def reproduce_two_jobs() -> Finding:
    """Simulate both jobs under H-MRF and read off what the figure shows."""
    played = _simulate_jobs()
    ran = played.simulation
    # `arange` leaves out its end: the last time is not before the end of all tasks.
    times = np.arange(0.0, np.ceil(ran.ended) + 1)
    degree, total = ran.sharing_degrees_at(times), _aggregates(ran, times)
    later = times > SECOND_JOB
    recovered = _first(times, later & (degree[:, 1] >= 1))
    caught_up = _first(times, later & (total[:, 1] >= total[:, 0]))
    # A user that would have run nothing alone yet has no degree.
    highest = float(np.nanmax(degree[:, 0]))
    ratio = float(total[-1, 0] / total[-1, 1])
    printed = {
        "the highest sharing degree of Job 1": (1.84, highest, ""),
        "Job 2 is at a loss until, seconds": (158.0, recovered, ""),
        "the aggregate of Job 2 is below Job 1's until, seconds": (247.0, caught_up, ""),
        "both jobs are done after, seconds": (670.0, ran.ended, ""),
        "aggregate of Job 1 over Job 2's at the end": (
            10_806 / 11_270,
            ratio,
            "10,806 / 11,270 = ",
        ),
    }
    rows = [
        Row(what, f"{note}{paper:.4g}", f"{ours:.4g}")
        for what, (paper, ours, note) in printed.items()
    ]
    passed = _begun_meanwhile(ran, caught_up)
    rows.append(Row("tasks of Job 1 that begin while Job 2 is behind and has tasks waiting", "–",
                    str(passed)))  # fmt: skip
    caught = (times >= recovered) & ~np.isnan(degree).any(axis=1)
    # A second later, because Job 2 has no degree at the moment when it comes.
    falling = degree[(times >= SECOND_JOB + 1) & (times <= caught_up), 0]
    claims = {
        # The degree stays at its maximum for a while, and rounding must not choose the moment.
        "Job 1's degree is highest when Job 2 comes": _first(
            times, degree[:, 0] >= highest - 1e-9
        ) <= SECOND_JOB,
        "Job 2 begins with a loss, because running tasks are not stopped": bool(
            degree[times == SECOND_JOB + 1, 1] < 1
        ),
        "Job 1's degree falls while Job 2 catches up": bool(falling[-1] < falling[0]),
        "from then on no user is at a loss": bool((degree[caught] >= 1).all()),
        "aggregates are close to each other at the end (within 10 %)": abs(ratio - 1) <= 0.1,
    }  # fmt: skip
    rows += [claim(what, holds) for what, holds in claims.items()]
    close = [abs(ours / paper - 1) <= CLOSE for paper, ours, _ in printed.values()]
    return Finding(
        name="h-mrf-fig7",
        title="Two jobs under H-MRF, the second one minute later",
        source="Tang et al., TPDS 2018, Fig. 7",
        setting=f"{SERVERS} nodes of 4 CPUs and 15 GB, two users of equal shares, `h-mrf` without a "
        f"window, by affinity. Each job has {MAPS} map tasks, and {REDUCES} reduce tasks that are "
        "submitted when those are done: Job 1 of 2 CPUs, 1 GB and 3 CPUs, 4 GB, Job 2 of 4 CPUs, 1 GB "
        f"and 2 CPUs, 4 GB, submitted at {SECOND_JOB:g} s. Durations are drawn with the seed {SEED}.",
        rows=tuple(rows),
        differences=(DURATIONS, AT_ONCE, *([WHO_FITS] if passed else []), UNIT),
        verdict=Verdict.of([*close, *claims.values()], same_input=False),
        figures=_figures(times, ran, degree, total),
    )


def _simulate_jobs() -> PhasesResult:
    random = np.random.default_rng(SEED)

    def phase(workload: int, at: float, after: tuple[int, ...] = ()) -> Phase:
        tasks, seconds = ((MAPS, MAP_SECONDS), (REDUCES, REDUCE_SECONDS))[workload % 2]
        return Phase(workload, random.lognormal(np.log(seconds), DEVIATION, tasks), at, after)

    phases = [
        phase(0, 0.0),
        phase(1, 0.0, (0,)),
        phase(2, SECOND_JOB),
        phase(3, SECOND_JOB, (2,)),
    ]
    problem = Problem.create(
        resources=("cpu", "memory"),
        capacity=[CAPACITY],
        server_count=[SERVERS],
        tenants=["Job 1", "Job 2"],
        workload_tenant=[0, 0, 1, 1],
        demand=DEMAND,
    )

    def run(trace: Trace) -> Simulation:
        return simulate(problem, trace, "h-mrf")

    return play(phases, run)


def _aggregates(ran: Simulation, times: FloatArray) -> FloatArray:
    """Return CPUs and GB times seconds that each used up to each time, in one sum (len(times), t)."""
    found = np.zeros((len(times), ran.problem.t))
    intervals = ran.used_intervals
    rate = intervals.rate.sum(axis=1)
    for at, time in enumerate(times.tolist()):
        # Below 0 where an interval has not begun.
        lasted = np.clip(np.minimum(intervals.end, time) - intervals.start, 0.0, None)
        np.add.at(found[at], intervals.tenant, lasted * rate)
    return found


def _begun_meanwhile(ran: Simulation, until: float) -> int:
    """Tasks of the first job that begin before ``until`` while tasks of the second wait."""
    first = ran.problem.workload_tenant[ran.trace.workload] == 0
    begun = np.sort(ran.start[first & (ran.start > SECOND_JOB) & (ran.start < until)])
    # Submitted less begun: a count of events, without a look at every task at every time.
    waiting = np.searchsorted(np.sort(ran.trace.submit[~first]), begun, side="right") - (
        np.searchsorted(np.sort(ran.start[~first]), begun, side="right")
    )
    return int((waiting > 0).sum())


def _first(times: FloatArray, holds: BoolArray) -> float:
    return float(times[np.argmax(holds)]) if holds.any() else np.inf


def _figures(
    times: FloatArray, ran: Simulation, degree: FloatArray, total: FloatArray
) -> tuple[Figure, ...]:
    names = ran.problem.tenants
    demand = demand_over_time(ran, times)
    x = tuple(times.tolist())

    def curves(values: FloatArray) -> tuple[Line, ...]:
        return tuple(Line(name, x, tuple(values[:, i].tolist())) for i, name in enumerate(names))

    pictures = (
        ("a", "CPU that each job wants", "CPUs", demand[:, :, 0]),
        ("b", "Memory that each job wants", "GB", demand[:, :, 1]),
        ("c", "Sharing degrees of two jobs", "sharing degree", degree),
        ("d", "Aggregate accumulated resources", "CPUs and GB × seconds", total),
    )
    return tuple(
        Figure(f"h-mrf-fig7{part}", title, "seconds", y_label, curves(values))
        for part, title, y_label, values in pictures
    )
