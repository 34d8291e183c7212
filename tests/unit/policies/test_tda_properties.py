"""Time division against brute force, and what every schedule promises."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import nnls

from policies import Problem, SolveTimeoutError, solve, verify
from policies.proofs.slots.slot_pool import SlotPool
from policies.proofs.slots.work_budget import WorkBudget
from policies.time_division.generation import WORK, divide
from policies.time_division.two_tenants import divide_between_two, saturated_pairs, two_alone
from tests.examples import examples
from tests.references.time_division import leximin_shares, saturated_allocations
from tests.unit.policies.problems import problem_of


def failed_checks(problem, answer):
    return [check for check in verify(problem, answer).checks if not check.holds]


whole = st.sampled_from([0, 1, 2, 3, 4, 5])
owed = st.sampled_from([0.0, 0.0, 0.125, -0.125, 0.03, -0.4, 1.5])


@st.composite
def small_pools(draw, servers=1, selectors=False):
    """Few tasks fit, so that all saturated allocations can be listed."""
    m = draw(st.integers(1, 3))
    t = draw(st.integers(1, 4))
    n = draw(st.integers(t, t + 1))
    one = st.lists(whole, min_size=m, max_size=m).filter(any)
    capacity = st.lists(st.integers(3, 9), min_size=m, max_size=m)
    fields = {}
    if selectors:
        choice = st.sampled_from([{}, {}, {"zone": "a"}])
        fields["server_labels"] = [{"zone": draw(st.sampled_from("ab"))} for _ in range(servers)]
        fields["selectors"] = draw(st.lists(choice, min_size=n, max_size=n))
    return Problem.create(
        resources=("cpu", "memory", "gpu")[:m],
        capacity=draw(st.lists(capacity, min_size=servers, max_size=servers)),
        demand=draw(st.lists(one, min_size=n, max_size=n)),
        tenants=[f"u{i}" for i in range(t)],
        workload_tenant=[*range(t), *[draw(st.integers(0, t - 1)) for _ in range(n - t)]],
        weight=draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=t, max_size=t)),
        tasks=draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=n, max_size=n))
        if draw(st.booleans()) or m == 3 or servers > 1
        else None,
        best_effort=draw(st.lists(st.sampled_from([False, False, True]), min_size=t, max_size=t)),
        priority=draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)),
        deficit=draw(st.none() | st.lists(owed, min_size=t, max_size=t)),
        **fields,
    )


@st.composite
def two_tenant_pools(draw):
    """Enough tasks for several corners of the hull."""
    m = draw(st.integers(1, 3))
    one = st.lists(st.integers(0, 7), min_size=m, max_size=m).filter(any)
    capacity = draw(st.lists(st.integers(7, 30), min_size=m, max_size=m))
    limit = st.sampled_from([np.inf, np.inf, 1, 2, 5])
    return Problem.create(
        resources=("cpu", "memory", "gpu")[:m],
        capacity=[capacity],
        demand=draw(st.lists(one, min_size=2, max_size=2)),
        tenants=["u1", "u2"],
        weight=draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=2, max_size=2)),
        tasks=draw(st.lists(limit, min_size=2, max_size=2)),
    )


@examples(500)
@given(small_pools())
def test_the_average_shares_are_the_leximin_over_all_saturated_allocations(problem):
    answer = solve(problem, "tda")
    assert answer.tenant_share == pytest.approx(leximin_shares(problem), abs=1e-7)
    columns, runs = saturated_allocations(problem)
    for tasks in answer.schedule.tasks.tolist():
        assert tuple(tasks) in columns
    tenants = len(set(problem.workload_tenant[runs].tolist()))
    assert len(answer.schedule.fraction) <= max(tenants, 1)
    assert not answer.gap > 1e-9
    assert failed_checks(problem, answer) == []
    assert answer.statistics["fewest_slots_proven"]
    assert all(item.proven for item in answer.certificate.rounds)
    assert len(answer.schedule.fraction) == fewest_slots_needed(problem, columns, answer)


def fewest_slots_needed(problem, columns, answer):
    """By one program per group of allocations, smaller groups first."""
    per_task = np.zeros((problem.t, problem.n))
    per_task[problem.workload_tenant, np.arange(problem.n)] = problem.dominant_share_per_task
    wanted = np.append(answer.tenant_share, 1.0)
    for size in range(1, len(answer.schedule.fraction)):
        for group in itertools.combinations(columns, size):
            rows = np.vstack([per_task @ np.array(group).T, np.ones(size)])
            if nnls(rows, wanted)[1] <= 1e-9:
                return size
    return len(answer.schedule.fraction)


@examples(500)
@given(two_tenant_pools())
def test_algorithm_3_1_and_the_rounds_for_any_number_agree(problem):
    pool = SlotPool.of(problem, pack=False)
    assume(two_alone(problem, pool))
    ours = divide_between_two(problem, pool, None)
    general = divide(problem, pool, WorkBudget(None, WORK), np.zeros(2))
    assert ours.share == pytest.approx(general.share, abs=1e-9)
    assert len(ours.slots) <= 2
    assert len(ours.slots) == len(general.slots)
    columns, _ = saturated_allocations(problem)
    both = sorted((a, b) for a, b in saturated_pairs(pool).tolist())
    assert both == columns
    assert failed_checks(problem, solve(problem, "tda")) == []


@examples(500)
@given(small_pools(servers=2, selectors=True))
def test_packed_slots_fit_on_servers_and_their_averages_are_the_leximin(problem):
    answer = solve(problem, "tda", options={"pack": True})
    assert failed_checks(problem, answer) == []
    columns, _ = saturated_allocations(problem, pack=True)
    for tasks in answer.schedule.tasks.tolist():
        assert tuple(tasks) in columns
    assert answer.tenant_share == pytest.approx(leximin_shares(problem, pack=True), abs=1e-7)
    assert not answer.gap > 1e-9


@examples(100)
@given(small_pools(), st.integers(0, 5), st.sampled_from([0.03, -0.03]))
def test_verify_rejects_what_was_changed(problem, which, change):
    answer = solve(problem, "tda")
    schedule = answer.schedule
    assume(len(schedule.fraction) > 1 and not np.isnan(answer.objective))
    fraction = schedule.fraction.copy()
    fraction[0] += change
    fraction[1] -= change
    tasks = schedule.tasks.copy()
    tasks[0, int(tasks[0].argmax())] -= 1
    forged = [
        replace(answer, schedule=replace(schedule, fraction=fraction)),
        replace(answer, schedule=replace(schedule, tasks=tasks)),
        replace(answer, tasks=answer.tasks * (1 + change)),
        replace(answer, schedule=replace(schedule, lp_bound=schedule.lp_bound * (1 + change))),
        replace(answer, objective=answer.objective * (1 + change)),
        replace(
            answer,
            schedule=replace(schedule, fraction=fraction),
            tasks=np.minimum(fraction @ schedule.tasks, problem.tasks),
        ),
    ][which]
    assert failed_checks(problem, answer) == []
    assert failed_checks(problem, forged)


def test_the_same_problem_gives_the_same_schedule():
    problem = problem_of([[30, 40]], [[3, 1], [2, 5], [4, 4], [1, 7], [6, 2]])
    first, second = (solve(problem, "tda").schedule for _ in range(2))
    assert first.fraction.tobytes() == second.fraction.tobytes()
    assert first.tasks.tobytes() == second.tasks.tobytes()


@pytest.mark.parametrize("seed", range(6))
def test_dozens_of_tenants_are_proven_too(seed):
    random = np.random.default_rng(seed)
    tenants = 40
    demand = random.integers(0, 30, (tenants, 2))
    demand[np.arange(tenants), random.integers(0, 2, tenants)] += 1
    problem = Problem.create(
        resources=("cpu", "memory"),
        capacity=[[150, 120]],
        tenants=[f"u{i}" for i in range(tenants)],
        demand=demand,
        tasks=random.integers(1, 4, tenants) if seed % 2 else None,
        weight=random.choice([0.5, 1.0, 2.0], tenants),
        best_effort=random.random(tenants) < 0.1,
    )
    answer = solve(problem, "tda")
    assert failed_checks(problem, answer) == []
    assert answer.gap <= 1e-9
    assert len(answer.schedule.fraction) <= tenants


def test_time_that_has_run_out_is_said():
    random = np.random.default_rng(1)
    demand = random.integers(2, 40, (100, 2))
    problem = problem_of([[200, 200]], demand)
    with pytest.raises(SolveTimeoutError):
        solve(problem, "tda", time_limit=1e-9)
