"""Where the simplex method begins: near its optimum, and with the same answer as from nothing."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.groups import grouped_pool
from benchmarks.limits import guaranteed_pool, limited_pool
from policies import Limit, Problem, normalise, solve, verify
from policies.leximin.highs import SimplexLevels
from policies.model.server_classes import server_classes
from tests.references.leximin import reference_shares

TENANTS, KINDS = 200, 8


def pool(seed, tenants=TENANTS):
    """A pool whose tenants have limits, half of them on two kinds of servers."""
    rng = np.random.default_rng(seed)
    limits = []
    for tenant in range(0, tenants, 4):
        where = {"kind": ("0", "1")} if tenant % 8 else {}
        amount = np.array([rng.uniform(2, 12), np.inf])
        limits.append(Limit("tenant", tenant, amount, where))
    return Problem.create(
        resources=["cpu", "memory"], capacity=rng.uniform(100, 300, (KINDS, 2)),
        server_labels=[{"kind": str(kind)} for kind in range(KINDS)],
        tenants=[str(tenant) for tenant in range(tenants)],
        demand=rng.uniform(1, 3, (tenants, 2)), limits=limits,
    )  # fmt: skip


def solved(problem, *, most=np.inf, **options):
    """The level, the prices, and how many steps the simplex method took."""
    program = SimplexLevels(problem, None, **options)
    answer = program.raise_level(np.full(problem.t, 1 / problem.t), np.zeros(problem.t), most=most)
    return answer, program._model.getInfo().simplex_iteration_count


@pytest.mark.parametrize("seed", range(5))
def test_few_steps_lead_from_there_to_the_optimum(seed):
    problem = pool(seed)
    form = normalise(problem, server_classes(problem)).leximin
    nothing, many = solved(form)
    near, few = solved(form, begins_near=True)
    assert near.tau == pytest.approx(nothing.tau, rel=1e-9)
    assert few <= many / 4
    assert np.isfinite(near.prices).all()


def test_a_bounded_level_ends_at_its_bound():
    problem = pool(0)
    form = normalise(problem, server_classes(problem)).leximin
    unbounded, _ = solved(form)
    bounded, _ = solved(form, begins_near=True, most=unbounded.tau / 2)
    assert bounded.tau == pytest.approx(unbounded.tau / 2, rel=1e-12)


def test_a_bound_is_that_of_one_program_alone():
    problem = pool(0)
    form = normalise(problem, server_classes(problem)).leximin
    program, rise = SimplexLevels(form, None), np.full(form.t, 1 / form.t)
    unbounded = program.raise_level(rise, 0 * rise)
    bounded = program.raise_level(rise, 0 * rise, most=unbounded.tau / 2)
    assert bounded.tau == pytest.approx(unbounded.tau / 2, rel=1e-12)
    again = program.raise_level(rise, 0 * rise)
    assert again.tau == pytest.approx(unbounded.tau, rel=1e-9)


def test_tenants_with_all_their_tasks_are_placed_without_a_higher_level():
    problem = replace(pool(0), tasks=np.full(TENANTS, 1.0))
    answer = solve(problem, "drfh")
    assert set(answer.limited_by) == {"task_limit"}
    assert answer.tasks.tolist() == pytest.approx([1.0] * TENANTS, rel=1e-12)
    assert verify(problem, answer).valid


@pytest.mark.parametrize("part", [1 / 4, 1 / 8])
@pytest.mark.parametrize("seed", range(3))
def test_rounds_that_end_with_all_tasks_agree_with_linear_programs(seed, part):
    tenants = 40  # on eight servers, which is more than what is solved to the last digit
    rng = np.random.default_rng(seed)
    full = pool(seed, tenants)
    where = [{} if tenant % 3 else {"kind": ("0", "1")} for tenant in range(tenants)]
    tasks = rng.integers(1, 7, tenants) * 1.0
    few = replace(full, tasks=tasks, capacity=full.capacity * part, selectors=tuple(where))
    answer = solve(few, "drfh")
    assert "task_limit" in answer.limited_by
    assert answer.tenant_share == pytest.approx(reference_shares(few), abs=2e-6)
    assert verify(few, answer).valid


@pytest.mark.parametrize("seed", [93, 96])
def test_programs_with_the_prices_of_the_one_before_are_not_repeated(seed):
    """A group's limit binds between corners of the path, next to the last point that is feasible."""
    problem = limited_pool(grouped_pool(120, 60, seed=seed), 60, seed=seed)
    answer = solve(problem, "drfh")
    assert answer.statistics["programs"] <= answer.statistics["rounds"] + 4
    assert verify(problem, answer).valid


def test_amounts_that_bound_shares_are_those_of_only_workloads_wherever_they_run():
    problem = pool(0)
    form = normalise(problem, server_classes(problem)).leximin
    share = np.full(form.t, 0.01)
    bounds = form.share_limits
    # Limits on all servers count one workload alone here: they are caps, and no amounts.
    assert len(bounds.amount) == 0
    assert bounds.highest_level(share, share, 7.0, 0.0) == 7.0
    grouped = Problem.create(
        resources=["cpu"], capacity=[[10], [20]], tenants=["a", "b", "c"], demand=[[1], [2], [1]],
        groups=["ml"], tenant_group=[0, 0, -1], limits=[Limit("group", 0, np.array([6.0]))],
    )  # fmt: skip
    bounds = normalise(grouped, server_classes(grouped)).leximin.share_limits
    assert bounds.used(np.array([0.1, 0.05, 0.5])).tolist() == pytest.approx([0.75])
    assert bounds.highest_level(np.array([0.1, 0.1, 0.1]), np.zeros(3), 5.0, 0.0) == 1.0


def test_rows_that_fill_up_next_to_each_other_leave_no_round_open():
    """Limits that are reached 1e-12 apart, which is within the tolerance of HiGHS."""
    problem = guaranteed_pool(limited_pool(grouped_pool(900, 60), 200), 200)
    steps = solve(problem, "drfh").floors
    for answer in (steps.raised, steps.rest):
        assert all(item.proven for item in answer.certificate.rounds)


@pytest.mark.parametrize("most_steps", [1, 5, 10**6])
def test_programs_that_begin_anew_agree_with_those_that_go_on(monkeypatch, most_steps):
    """Whether a program goes on from the basis before it, or begins near its own optimum."""
    problem = guaranteed_pool(limited_pool(grouped_pool(200, 40), 60), 40)
    expected = solve(problem, "drfh")
    began = []
    near = SimplexLevels._run_near

    def counted(levels, basis, fixed):
        began.append(levels)
        return near(levels, basis, fixed)

    monkeypatch.setattr(SimplexLevels, "_run_near", counted)
    monkeypatch.setattr("policies.leximin.highs.MOST_STEPS", most_steps)
    answer = solve(problem, "drfh")
    assert answer.level == pytest.approx(expected.level, rel=1e-9, nan_ok=True)
    assert verify(problem, answer).valid
    # Each model begins near its optimum once, and again only where it needs more steps.
    again = len(began) - len({id(levels) for levels in began})
    assert (again > 0) == (most_steps < 10**6)
