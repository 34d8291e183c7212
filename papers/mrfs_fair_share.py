"""MRFS, Fig. 10: do the dominant requests of 100 full servers get their fair share?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from papers.arrays import FloatArray
from papers.ffmra import divide_server
from papers.finding import Figure, Finding, Line, Row, Verdict
from papers.mrfs_series import (
    CAPACITY,
    FFMRA_READING,
    RESOURCES,
    SIDES,
    kinds_of_requests,
)
from papers.words import claim, percent
from policies import Problem, dominant_on
from policies.simulation import Simulation, Trace, simulate

SERVERS, PER_SERVER, USERS, BATCHES, SEED = 100, 40, 8, 5, 1
# Requests that servers accept beyond what they have: about 40 on each, of the kinds of Fig. 6.
OVERCOMMIT = 6.5
SHOWN = 8
# Seconds between two requests of a batch: a scheduler sees one at a time.
ONE_AFTER_THE_OTHER = 2.0**-20

ACCEPTED = (
    "There a server takes 40 requests, whatever they need; here it takes requests up to "
    f"{OVERCOMMIT:g} times what it has, which are about as many. The requests are drawn, and so are "
    "those of the paper, which does not print them."
)
MET = (
    "The paper counts the tasks that eight requests schedule against a fair share that it does not "
    "define. Here the fair share is an even part of the server's dominant resource, and a request "
    "whose need is below it has it when the need is met."
)

GROUPS = (
    "Requests need more of what dominates them than of the other, so that FFMRA's first division gives "
    "their group more than an even part of it, unless a server hosts hardly any others."
)


@dataclass(frozen=True, eq=False)
class Dominant:
    """Every request of every batch on one server each.

    Attributes:
        batch, server, resource: (N,) when, where, and which resource dominates it.
        given, fair: (N,) of that resource, as parts of the server.
        has_fair_share: part of the requests that are given the fair share, or all they need.
        hosted: (BATCHES × servers) how many requests each server hosts.
    """

    batch: FloatArray
    server: FloatArray
    resource: FloatArray
    given: FloatArray
    fair: FloatArray
    has_fair_share: FloatArray
    hosted: FloatArray


def reproduce_fair_shares() -> Finding:
    """Batches of requests that fill the servers, with MRFS and without."""
    found = {name: _measured(policy) for name, policy in SIDES.items()}
    mrfs = found["MRFS"]
    part = {
        name: [float(each.has_fair_share[each.resource == r].mean()) for r in range(len(RESOURCES))]
        for name, each in found.items()
    }
    rows = [
        Row(f"requests on a server, {name}", f"{PER_SERVER}",
            f"{each.hosted.mean():.1f} ({each.hosted.min():.0f} to {each.hosted.max():.0f})")
        for name, each in found.items()
    ]  # fmt: skip
    rows += [
        Row(f"requests dominated by {resource} with their fair share of it, {name}",
            "95 to 97 %" if name == "MRFS" else "–", percent(part[name][r]))
        for name in found
        for r, resource in enumerate(RESOURCES)
    ]  # fmt: skip
    claims = {
        "with MRFS 95 % or more have their fair share": min(part["MRFS"]) >= 0.95,
        "with MRFS more have it than without": sum(part["MRFS"]) > sum(part["FFMRA"]),
    }
    rows += [claim(what, holds) for what, holds in claims.items()]
    return Finding(
        name="mrfs-fig10",
        title="Fair shares of dominant requests",
        source="Hamzeh et al., MRFS, 2020, Fig. 10",
        setting=f"{SERVERS} servers of 3,000 CPU and 6,000 RAM and {BATCHES} batches of "
        f"{SERVERS * PER_SERVER:,} requests of {USERS} users, of the kinds of Fig. 6, as many "
        "dominated by CPU as by RAM; they come one after the other, and when they have gone the next "
        f"batch comes. Seed {SEED}.",
        rows=tuple(rows),
        differences=(ACCEPTED, MET, GROUPS, FFMRA_READING),
        verdict=Verdict.of(claims.values(), same_input=False),
        figures=tuple(_figure(mrfs, r, name) for r, name in enumerate(RESOURCES)),
    )


def _measured(policy: str) -> Dominant:
    demand, _ = kinds_of_requests()
    random = np.random.default_rng(SEED)
    kinds, each = len(demand), SERVERS * PER_SERVER
    problem = Problem.create(
        resources=RESOURCES,
        capacity=[CAPACITY * OVERCOMMIT],
        server_count=[SERVERS],
        tenants=[f"user {i + 1}" for i in range(USERS)],
        workload_tenant=np.repeat(np.arange(USERS), kinds),
        demand=np.tile(demand, (USERS, 1)),
    )
    trace = Trace.create(
        workload=random.integers(len(problem.demand), size=BATCHES * each),
        submit=np.repeat(np.arange(BATCHES, dtype=np.float64), each)
        + np.tile(np.arange(each) * ONE_AFTER_THE_OTHER, BATCHES),
        # Each batch ends before the next one begins.
        duration=np.full(BATCHES * each, 1 - each * ONE_AFTER_THE_OTHER),
    )
    return _divided(simulate(problem, trace, policy, until=float(BATCHES)))


def _divided(ran: Simulation) -> Dominant:
    problem = ran.problem
    dominant = np.array([dominant_on(need, CAPACITY) for need in problem.demand])
    rows, hosted = [], []
    for batch in range(BATCHES):
        # Batches begin at whole seconds, and all of one is gone before the next.
        running = np.flatnonzero(np.floor(ran.start) == batch)
        for server in range(SERVERS):
            here = ran.trace.workload[running[ran.server[running] == server]]
            hosted.append(float(len(here)))
            if not len(here):
                continue
            need = problem.demand[here]
            given = divide_server(CAPACITY, need, np.ones(len(here)))
            r = dominant[here]
            got, needed = (
                values[np.arange(len(here)), r] / CAPACITY[r] for values in (given, need)
            )
            fair = np.full(len(here), 1 / len(here))
            # The division adds up floats, so that an even part may come out a little below it.
            enough = got >= np.minimum(fair, needed) * (1 - 1e-9)
            at = np.full((len(here), 2), (batch, server))
            rows.append(np.column_stack([at, r, got, fair, enough]))
    columns = np.concatenate(rows).astype(np.float64).T
    batch_of, server_of, resource, got_of, fair_of, enough_of = columns
    return Dominant(batch_of, server_of, resource, got_of, fair_of, enough_of, np.array(hosted))


def _figure(found: Dominant, r: int, resource: str) -> Figure:
    """Return a figure of the first requests of the middle server beside the fair share.

    Its x-axis has the batches.
    """
    server = SERVERS // 2
    lines = []
    for position in (*range(SHOWN), None):
        x, y = [], []
        for batch in range(BATCHES):
            here = np.flatnonzero(
                (found.batch == batch) & (found.server == server) & (found.resource == r)
            )
            if position is None and len(here):
                x.append(float(batch))
                y.append(float(found.fair[here[0]]))
            elif position is not None and position < len(here):
                x.append(float(batch))
                y.append(float(found.given[here[position]]))
        name = "fair share" if position is None else f"request {position + 1}"
        lines.append(Line(name, tuple(x), tuple(y)))
    return Figure(
        f"mrfs-fig10-{resource.lower()}",
        f"{resource} of requests that it dominates, with MRFS",
        "batch",
        "part of the server",
        tuple(lines),
    )
