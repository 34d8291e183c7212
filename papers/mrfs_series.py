"""Three users' requests on three servers over time, with and without MRFS (MRFS, Figs 6 to 9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from papers.arrays import FloatArray, IntArray
from papers.ffmra import divide_server
from papers.finding import Figure, Finding, Line, Row, Verdict
from papers.penalty import mean_dominant_demand, penalty
from papers.words import claim, percent
from policies import Problem, dominant_on
from policies.simulation import Simulation, Trace, simulate

SERVERS, CAPACITY = 3, np.array([3_000.0, 6_000.0])
RESOURCES = ("CPU", "RAM")
# Part of each user's requests that is dominated by CPU.
CPU_DOMINATED = {"A": 0.7, "B": 0.5, "C": 0.4}
# Shares of a server that a request may need of what dominates it, and of the other relative to that.
SHARES, OTHER = (0.1, 0.15, 0.2, 0.25, 0.3), (0.2, 0.4, 0.6, 0.8)
# A server accepts requests up to so many times what it has, and FFMRA divides what it has.
OVERCOMMIT = 3.0
SECONDS, BEGIN, MEDIAN_SECONDS, DEVIATION, SEED = 1_000, 50, 12.0, 0.5, 1
# Seconds between two looks at the servers.
EVERY = 2
SIDES = {"FFMRA": "ffmra", "MRFS": "mrfs"}
POINTS = 200

REQUESTS = (
    "The requests are drawn in the paper and not printed. Ours are assumptions (above); only the order "
    "of the two sides can be compared."
)
WITHOUT = (
    "Without MRFS the paper places by CloudSim's own rule; here each request goes to the first server "
    "with room (`ffmra` of `policies.simulation`), so that the last server has less to do than the "
    "first."
)
FFMRA_READING = (
    "The paper that defines FFMRA is not among our sources: what divides a server is FFMRA as described "
    "in §§II–III of the paper on MRFS."
)


@dataclass(frozen=True, eq=False)
class Measurements:
    """One side over time.

    Attributes:
        times: (S,) seconds.
        requests: (S, servers, 2) hosted requests that are dominated by each resource.
        alpha: (S, servers) penalty.
        dominant, other: (S, 2) part of each resource of all servers that goes to the requests that it
            dominates, and to the others.
        utility: (S, users) requests' worth of resources that each user gets: for each of its hosted
            requests the least part of its need that it is given.
    """

    times: FloatArray
    requests: FloatArray
    alpha: FloatArray
    dominant: FloatArray
    other: FloatArray
    utility: FloatArray

    @property
    def imbalance(self) -> FloatArray:
        """Difference (S, servers) of the larger number of requests and the smaller."""
        difference: FloatArray = self.requests.max(axis=2) - self.requests.min(axis=2)
        return difference


@lru_cache(maxsize=1)
def measured() -> dict[str, Measurements]:
    """Both sides on the same requests, once for all figures."""
    problem, trace = _requests()
    return {
        name: _measure(simulate(problem, trace, policy, until=float(SECONDS)))
        for name, policy in SIDES.items()
    }


def kinds_of_requests() -> tuple[FloatArray, IntArray]:
    """Return the demand (q, 2) of one request of each kind, and the resource (q,) that dominates it."""
    demand, dominant = [], []
    for r in range(len(RESOURCES)):
        for share in SHARES:
            for part in OTHER:
                need = np.full(len(RESOURCES), share * part)
                need[r] = share
                demand.append(need * CAPACITY)
                dominant.append(r)
    return np.array(demand), np.array(dominant)


def _requests() -> tuple[Problem, Trace]:
    random = np.random.default_rng(SEED)
    demand, dominant = kinds_of_requests()
    users, kinds = len(CPU_DOMINATED), len(demand)
    problem = Problem.create(
        resources=RESOURCES,
        capacity=[CAPACITY * OVERCOMMIT],
        server_count=[SERVERS],
        tenants=tuple(CPU_DOMINATED),
        workload_tenant=np.repeat(np.arange(users), kinds),
        demand=np.tile(demand, (users, 1)),
    )
    of_kind = [np.flatnonzero(dominant == r) for r in range(len(RESOURCES))]
    drawn = []
    for user, part in enumerate(CPU_DOMINATED.values()):
        which = (random.random(SECONDS) >= part).astype(np.int64)
        some = random.integers(len(of_kind[0]), size=SECONDS)
        drawn.append(user * kinds + np.array(of_kind)[which, some])
    trace = Trace.create(
        # By second and then by user, as the times of submission are.
        workload=np.array(drawn).T.ravel(),
        submit=np.repeat(np.arange(SECONDS, dtype=np.float64), users),
        duration=random.lognormal(np.log(MEDIAN_SECONDS), DEVIATION, SECONDS * users),
    )
    return problem, trace


def _measure(ran: Simulation) -> Measurements:
    problem, trace = ran.problem, ran.trace
    # From when the servers have filled, and between the arrivals, which are at whole seconds.
    times: FloatArray = np.arange(BEGIN, SECONDS, EVERY, dtype=np.float64) + 0.5
    dominant = np.array([dominant_on(need, CAPACITY) for need in problem.demand])
    shape = (len(times), SERVERS)
    requests, alpha = np.zeros((*shape, len(RESOURCES))), np.zeros(shape)
    of_dominant, of_other = (np.zeros((len(times), len(RESOURCES))) for _ in range(2))
    utility = np.zeros((len(times), problem.t))
    # Requests that have not ended when the simulation stops are still hosted.
    over = np.where(np.isnan(ran.end), np.inf, ran.end)
    for at, time in enumerate(times.tolist()):
        hosted = np.flatnonzero((ran.start <= time) & (over > time))
        for server in range(SERVERS):
            here = trace.workload[hosted[ran.server[hosted] == server]]
            need, which = problem.demand[here], dominant[here]
            given = divide_server(CAPACITY, need, np.ones(len(here)))
            total = np.zeros(len(RESOURCES))
            for r in range(len(RESOURCES)):
                its = which == r
                requests[at, server, r] = its.sum()
                total[r] = need[its, r].sum()
                of_dominant[at, r] += given[its, r].sum() / (CAPACITY[r] * SERVERS)
                of_other[at, r] += given[~its, r].sum() / (CAPACITY[r] * SERVERS)
            alpha[at, server] = penalty(mean_dominant_demand(total, requests[at, server]), CAPACITY)
            worth = (given / need).min(axis=1)
            np.add.at(utility[at], problem.workload_tenant[here], worth)
    return Measurements(times, requests, alpha, of_dominant, of_other, utility)


def _setting() -> str:
    parts = ", ".join(f"{100 * part:.0f} % of {user}'s" for user, part in CPU_DOMINATED.items())
    return (
        f"{SERVERS} servers of 3,000 CPU and 6,000 RAM; users A, B and C submit one request each "
        f"second, for {SECONDS:,} s. A request needs {100 * SHARES[0]:.0f} to "
        f"{100 * SHARES[-1]:.0f} % of a server's CPU ({parts} requests) or RAM, and {OTHER[0]:g} to "
        f"{OTHER[-1]:g} times that share of the other; it stays for {MEDIAN_SECONDS:g} s in the median "
        f"(log-normal). A server accepts requests up to {OVERCOMMIT:g} times what it has, and FFMRA "
        f"divides what it has between them. Seed {SEED}; measured from {BEGIN} s on, every {EVERY} s."
    )


def _finding(
    figure: int,
    title: str,
    rows: list[Row],
    claims: dict[str, bool],
    figures: tuple[Figure, ...],
) -> Finding:
    return Finding(
        name=f"mrfs-fig{figure}",
        title=title,
        source=f"Hamzeh et al., MRFS, 2020, Fig. {figure}",
        setting=_setting(),
        rows=(*rows, *(claim(what, holds) for what, holds in claims.items())),
        differences=(REQUESTS, WITHOUT, FFMRA_READING),
        verdict=Verdict.of(claims.values(), same_input=False),
        figures=figures,
    )


def reproduce_counts() -> Finding:
    """Fig. 6: requests dominated by each resource on each server."""
    found = measured()
    rows = [
        Row(f"requests dominated by {resource} on a server, {name}", "a chart",
            f"{each.requests[:, :, r].mean():.2f}")
        for name, each in found.items()
        for r, resource in enumerate(RESOURCES)
    ]  # fmt: skip
    rows += [
        Row(f"difference of the two numbers on a server, {name}", "a chart",
            f"{each.imbalance.mean():.2f} (at most {each.imbalance.max():.0f})")
        for name, each in found.items()
    ]  # fmt: skip
    rows += [
        Row(f"penalty α of a server, {name}", "0.196 to 0.264 in Table II",
            f"{each.alpha.mean():.3f} ({each.alpha.min():.3f} to {each.alpha.max():.3f})")
        for name, each in found.items()
    ]  # fmt: skip
    ffmra, mrfs = found["FFMRA"], found["MRFS"]
    claims = {
        "without MRFS requests dominated by CPU are more": bool(
            ffmra.requests[:, :, 0].mean() > ffmra.requests[:, :, 1].mean()
        ),
        "the difference is less with MRFS": bool(mrfs.imbalance.mean() < ffmra.imbalance.mean()),
        "the difference is considerably less with MRFS (by a third)": bool(
            mrfs.imbalance.mean() <= ffmra.imbalance.mean() * 2 / 3
        ),
        "the penalty is less with MRFS": bool(mrfs.alpha.mean() < ffmra.alpha.mean()),
    }
    figures = tuple(
        _over_time(
            f"mrfs-fig6-{name.lower()}-{server + 1}",
            f"Requests on server {server + 1} with {name}",
            "requests",
            {
                f"dominated by {resource}": (each.times, each.requests[:, server, r])
                for r, resource in enumerate(RESOURCES)
            },
        )
        for name, each in found.items()
        for server in range(SERVERS)
    )
    return _finding(6, "Requests by dominant resource on each server", rows, claims, figures)


def reproduce_pool_parts() -> Finding:
    """Fig. 7: the part of all servers that goes to dominant and to other requests."""
    return _parts(
        7,
        "Part of the pool for dominant and other requests",
        lambda each: {"dominant": each.dominant.mean(axis=1), "other": each.other.mean(axis=1)},
    )


def reproduce_resource_parts() -> Finding:
    """Fig. 8: the same, resource by resource."""
    return _parts(
        8,
        "Part of each resource for dominant and other requests",
        lambda each: {
            "dominant CPU": each.dominant[:, 0],
            "dominant RAM": each.dominant[:, 1],
            "other CPU": each.other[:, 0],
            "other RAM": each.other[:, 1],
        },
    )


def _parts(
    figure: int, title: str, parts: Callable[[Measurements], dict[str, FloatArray]]
) -> Finding:
    found = {name: parts(each) for name, each in measured().items()}
    rows = [
        Row(f"{what} requests, {name}" if figure == 7 else f"{what}, {name}", "a chart",
            percent(float(values.mean())))
        for name, each in found.items()
        for what, values in each.items()
    ]  # fmt: skip
    ffmra, mrfs = found["FFMRA"], found["MRFS"]
    claims = {
        f"{what} is {'more' if what.startswith('dominant') else 'less'} with MRFS": bool(
            (mrfs[what].mean() > ffmra[what].mean()) == what.startswith("dominant")
        )
        for what in mrfs
    }
    if "dominant CPU" in mrfs:
        claims["with MRFS dominant CPU is more than dominant RAM"] = bool(
            mrfs["dominant CPU"].mean() > mrfs["dominant RAM"].mean()
        )
    times = measured()["MRFS"].times
    figures = tuple(
        _over_time(
            f"mrfs-fig{figure}-{what.lower().replace(' ', '-')}",
            f"{what.capitalize() if figure == 7 else what}: part of the pool",
            "part",
            {name: (times, each[what]) for name, each in found.items()},
        )
        for what in mrfs
    )
    return _finding(figure, title, rows, claims, figures)


def reproduce_users() -> Finding:
    """Fig. 9: what each user gets."""
    found = measured()
    gain = found["MRFS"].utility.mean(axis=0) / found["FFMRA"].utility.mean(axis=0) - 1
    rows = [
        Row(f"requests' worth of resources at a time, user {user}, {name}", "a chart",
            f"{each.utility[:, i].mean():.2f}")
        for name, each in found.items()
        for i, user in enumerate(CPU_DOMINATED)
    ]  # fmt: skip
    rows += [
        Row(f"more with MRFS, user {user}", "15 to 20 % (abstract)", percent(float(gain[i])))
        for i, user in enumerate(CPU_DOMINATED)
    ]
    claims = {
        "all users together get more with MRFS": bool(
            found["MRFS"].utility.sum() > found["FFMRA"].utility.sum()
        ),
        # To half a point, as percentages are printed whole.
        "each user gets 15 to 20 % more with MRFS": bool(((gain >= 0.145) & (gain <= 0.205)).all()),
        "user A gets more without MRFS": bool(gain[0] < 0),
    }
    figures = tuple(
        _over_time(
            f"mrfs-fig9-{user.lower()}", f"What user {user} gets", "requests' worth",
            {name: (each.times, each.utility[:, i]) for name, each in found.items()},
        )
        for i, user in enumerate(CPU_DOMINATED)
    )  # fmt: skip
    return _finding(9, "What each user is allocated", rows, claims, figures)


def _over_time(
    name: str, title: str, y_label: str, curves: dict[str, tuple[FloatArray, FloatArray]]
) -> Figure:
    """Return a figure of averages over a few seconds each, so that its curves stay distinct."""
    lines = []
    for curve, (times, values) in curves.items():
        groups = min(POINTS, len(times))
        lines.append(
            Line(
                curve,
                tuple(float(part.mean()) for part in np.array_split(times, groups)),
                tuple(float(part.mean()) for part in np.array_split(values, groups)),
            )
        )
    return Figure(name, title, "seconds", y_label, tuple(lines))
