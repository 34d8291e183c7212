"""Traces, changes of servers and later terms, as Hypothesis draws them."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from policies import Problem, Window
from policies.simulation import ServerChanges, Trace
from tests.unit.policies.trees import tree_of

windows = st.one_of(
    st.just(Window.unbounded()),
    st.sampled_from([0, 1, 2.5, 4, 7]).map(Window.sliding),
    st.sampled_from([(), (0,), (2, 5), (1, 3, 4.5)]).map(Window.tumbling),
    st.sampled_from([1, 3, 8]).map(Window.decay),
)


@st.composite
def traces(draw, workloads, most=10):
    count = draw(st.integers(0, most))
    column = {
        "workload": st.integers(0, workloads - 1),
        "submit": st.sampled_from([0, 0, 0.5, 1, 2, 2.5, 3, 5, 8]),
        "duration": st.sampled_from([0.5, 1, 1.5, 2, 4, 7]),
    }
    return Trace.create(
        **{
            name: draw(st.lists(values, min_size=count, max_size=count))
            for name, values in column.items()
        }
    )


@st.composite
def changes_of(draw, servers):
    """Some servers that leave and join, each in turn."""
    time, server, joins = [], [], []
    for number in range(servers):
        moments = draw(st.lists(st.sampled_from([0, 1, 2.25, 3, 5]), max_size=2, unique=True))
        first = draw(st.booleans())
        for turn, moment in enumerate(sorted(moments)):
            time.append(moment)
            server.append(number)
            joins.append(first ^ (turn % 2 == 1))
    return ServerChanges.create(time=time, server=server, joins=joins)


TERMS = ("weight", "best_effort", "tenant_group", "tenant_tier", "groups", "group_parent",
         "group_weight", "group_tier")  # fmt: skip


@st.composite
def other_terms(draw, problem):
    """Some later trees, weights and classes of service of a problem's tenants."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    later = []
    for moment in sorted(draw(st.sets(st.sampled_from([0, 0.5, 2, 3, 4.5]), max_size=3))):
        fresh = Problem.create(
            resources=["cpu"], capacity=[[1]], tenants=problem.tenants, demand=[[1]] * problem.t,
            weight=rng.integers(1, 4, problem.t), best_effort=rng.random(problem.t) < 0.2,
            **(tree_of(rng, problem.t) if rng.random() < 0.8 else {}),
        )  # fmt: skip
        later.append((moment, replace(problem, **{name: getattr(fresh, name) for name in TERMS})))
    return later


def plain(times):
    return [math.nan if time is None else float(time) for time in times]
