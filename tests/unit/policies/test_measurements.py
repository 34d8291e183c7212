"""What is measured of a simulation, on traces small enough to follow by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import PolicyError
from policies.simulation import (
    ServerChanges,
    Trace,
    completion_against,
    distribution,
    envy,
    fairness_of,
    jobs_of,
    longest_starvation,
    over_seeds,
    reduction_by_job_size,
    simulate,
    utilisation_between,
)
from tests.examples import examples
from tests.unit.policies.problems import problem_of


def two_servers():
    """Two servers of 2,12 and 12,2 (DRFH Fig. 2); A needs memory, B needs CPU."""
    return problem_of([[2.0, 12.0], [12.0, 2.0]], [[0.2, 1.0], [1.0, 0.2]])


def test_jobs_end_with_their_last_task_and_not_at_all_if_one_does_not():
    problem = problem_of([[2.0]], [[1.0], [4.0]])
    trace = Trace.create(
        workload=[0, 0, 0, 0, 1],
        submit=[0, 1, 0, 5, 0],
        duration=[3, 1, 1, 1, 1],
        job=[7, 7, 2, 2, 9],
    )
    jobs = jobs_of(simulate(problem, trace, "drf"))
    assert jobs.job.tolist() == [2, 7, 9]
    assert jobs.tasks.tolist() == [2, 2, 1]
    assert jobs.tenant.tolist() == [0, 0, 1]
    assert jobs.submit.tolist() == [0, 0, 0]
    assert jobs.completion.tolist()[:2] == [6, 3]
    assert math.isnan(jobs.completion[2])


def test_reduction_is_by_size_and_of_jobs_that_both_completed():
    problem = problem_of([[60.0]], [[1.0]])
    trace = Trace.create(
        workload=[0] * 121, submit=[0] * 121, duration=[2] * 121, job=[0] * 60 + [1] * 60 + [2]
    )
    ours = simulate(problem, trace, "drf")
    # 30 slots of two cores: one task each, so 30 tasks at a time.
    slots = simulate(problem, trace, "slots", options={"slots_per_largest_server": 30})
    small, middle, *_, huge = reduction_by_job_size(jobs_of(ours), jobs_of(slots))
    assert (small.jobs, small.mean, small.other_mean) == (1, 6, 10)
    assert (middle.jobs, middle.mean, middle.other_mean) == (2, 3, 6)
    assert middle.reduction == 0.5
    assert middle.mean_reduction == 0.5
    assert huge.jobs == 0
    assert math.isnan(huge.reduction)


def test_only_jobs_of_one_trace_are_set_beside_each_other():
    problem = two_servers()
    one, other = (
        jobs_of(
            simulate(problem, Trace.create(workload=w, submit=w, duration=[1] * len(w)), "drfh")
        )
        for w in ([0], [0, 1])
    )
    with pytest.raises(PolicyError, match="different traces"):
        reduction_by_job_size(one, other)


def test_a_distribution_counts_what_did_not_end():
    values, part = distribution([3, 1, 3, math.nan])
    assert values.tolist() == [1, 3]
    assert part.tolist() == [0.25, 0.75]
    assert [column.tolist() for column in distribution([])] == [[], []]


def test_utilisation_between_edges_is_an_average_over_time():
    trace = Trace.create(workload=[0, 1], submit=[0, 1], duration=[2, 3])
    found = simulate(problem_of([[4.0]], [[1.0], [3.0]]), trace, "drf")
    assert utilisation_between(found, [0, 1, 2, 4, 10]).tolist() == [
        [0.25], [1.0], [0.75], [0.0],
    ]  # fmt: skip
    empty = simulate(
        problem_of([[4.0]], [[1.0]]), Trace.create(workload=[], submit=[], duration=[]), "drf"
    )
    assert utilisation_between(empty, [0, 1]).tolist() == [[0]]


def test_completion_beside_another_policy():
    problem = two_servers()
    trace = Trace.create(workload=[0] * 10 + [1] * 10, submit=[0] * 20, duration=[1] * 20)
    ours = simulate(problem, trace, "drfh", until=1)
    other = simulate(problem, trace, "static", until=1)
    beside = completion_against(ours.completed, other.completed)
    assert beside.ratio.tolist() == [1, 1]
    # Half of each server: 5 tasks on the one, 1 on the other.
    assert beside.other_ratio.tolist() == [0.6, 0.6]
    assert (beside.more, beside.fewer, beside.only_here) == (1, 0, 1)


def test_starvation_is_the_longest_wait_with_nothing_running():
    problem = problem_of([[1.0]], [[1.0], [1.0], [2.0]])
    trace = Trace.create(workload=[0, 1, 1, 2], submit=[0, 1, 1, 2], duration=[4, 1, 5, 1])
    found = simulate(problem, trace, "drf")
    # B waits from 1 to 4; what it has waiting while it runs does not count.
    assert longest_starvation(found).tolist() == [0, 3, 8]


def test_nobody_starves_without_tasks():
    trace = Trace.create(workload=[], submit=[], duration=[])
    assert longest_starvation(simulate(two_servers(), trace, "drf")).tolist() == [0, 0]


@examples(200)
@given(data=st.data())
def test_starvation_as_one_would_read_it_off_a_chart(data):
    problem = problem_of([[2.0]], [[1.0], [2.0]])
    count = data.draw(st.integers(1, 8))

    def column(values):
        return data.draw(st.lists(st.sampled_from(values), min_size=count, max_size=count))

    trace = Trace.create(
        workload=column([0, 1]), submit=column([0, 1, 2, 5]), duration=column([1, 2, 4])
    )
    found = simulate(problem, trace, data.draw(st.sampled_from(["drf", "single-resource"])))
    for tenant, longest in enumerate(longest_starvation(found).tolist()):
        mine = trace.workload == tenant
        wait = best = 0
        for second in np.arange(0, found.ended):
            waits = (trace.submit <= second) & (found.start > second) & mine
            runs = (found.start <= second) & (found.end > second) & mine
            wait = wait + 1 if waits.any() and not runs.any() else 0
            best = max(best, wait)
        assert longest == best


def test_fairness_and_envy_of_a_pool_that_one_tenant_has_to_itself():
    problem = problem_of([[4.0]], [[1.0], [1.0]])
    trace = Trace.create(workload=[0] * 4 + [1] * 4, submit=[0] * 4 + [1] * 4, duration=[9] * 8)
    alone = simulate(problem, trace, "drf", until=9)
    assert fairness_of(alone) == 0.5
    assert envy(alone).tolist() == [0, math.inf]
    shared = simulate(problem, trace, "drf", until=18)
    assert fairness_of(shared) == pytest.approx(1)
    assert envy(shared).tolist() == [1, 1]


def test_who_submitted_nothing_neither_counts_nor_envies():
    problem = two_servers()
    found = simulate(problem, Trace.create(workload=[0], submit=[0], duration=[1]), "drfh")
    assert fairness_of(found) == 1
    assert np.isnan(envy(found)).tolist() == [False, True]


def test_a_repeated_measurement_has_a_spread():
    found = over_seeds(lambda seed: [seed, 2], [1, 2, 3])
    assert found.mean.tolist() == [2, 2]
    assert found.deviation.tolist() == [1, 0]
    assert (found.least.tolist(), found.most.tolist(), found.count) == ([1, 2], [3, 2], 3)
    assert over_seeds(lambda seed: seed, [4]).deviation == 0
    with pytest.raises(PolicyError, match="at least one seed"):
        over_seeds(lambda seed: seed, [])


def test_a_server_that_leaves_drains_and_no_longer_counts():
    problem = problem_of([[2.0]], [[1.0], [1.0]], server_count=[2])
    trace = Trace.create(workload=[0] * 4 + [1] * 2, submit=[0] * 4 + [1] * 2, duration=[4] * 6)
    changes = ServerChanges.create(time=[1, 6], server=[1, 1], joins=[False, True])
    found = simulate(problem, trace, "drfh", changes=changes)
    assert found.start.tolist() == [0, 0, 0, 0, 4, 4]
    assert found.server.tolist() == [0, 0, 1, 1, 0, 0]
    # Alone A could run two of its tasks on its half of two servers, one on its half of one.
    assert found.alone[0].tolist() == [2 * 1 + 1 * 3]


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("changes.shape", {"time": [0], "server": [0, 1], "joins": [True]}),
        ("changes.value", {"time": [math.nan], "server": [0], "joins": [True]}),
        ("changes.value", {"time": [0], "server": [-1], "joins": [True]}),
        ("changes.value", {"time": [0, 1], "server": [0, 0], "joins": [True, True]}),
        ("changes.value", {"time": [1, 1], "server": [0, 0], "joins": [True, False]}),
        ("changes.server", {"time": [1], "server": [2], "joins": [False]}),
    ],
)
def test_changes_of_servers_that_cannot_be(code, change):
    trace = Trace.create(workload=[0], submit=[0], duration=[1])
    with pytest.raises(PolicyError) as refused:
        simulate(two_servers(), trace, "drfh", changes=ServerChanges.create(**change))
    assert refused.value.code == code
