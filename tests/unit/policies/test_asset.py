"""Asset fairness, divisible: its worked figures (policies §2), and the leximin it is."""

import numpy as np
import pytest
from hypothesis import given

from policies import choose, solve, verify
from tests.examples import examples
from tests.references.leximin import reference_shares
from tests.unit.policies.problems import problem_of, problems

EXAMPLES = examples(500)


def asset(problem):
    answer = solve(problem, "asset")
    verification = verify(problem, answer)
    assert verification.valid, [check for check in verification.checks if not check.holds]
    return answer


def asset_shares(answer):
    problem = answer.problem
    share = answer.tasks * problem.demand_share.sum(axis=1)
    return np.bincount(problem.workload_tenant, weights=share, minlength=problem.t)


def test_divisible_is_the_default_mode():
    assert choose("asset").mode == "divisible"
    assert solve(problem_of([[1]], [[1]]), "asset").mode == "divisible"


@pytest.mark.parametrize(
    ("capacity", "demand", "tasks"),
    [
        ([9, 18], [[1, 4], [3, 1]], [2.52, 2.16]),
        ([30, 30], [[1, 3], [1, 1]], [6, 12]),
        ([21, 21], [[3, 2], [4, 1]], [3, 3]),
    ],
)
def test_the_paper_s_examples(capacity, demand, tasks):
    answer = asset(problem_of([capacity], demand))
    assert answer.tasks == pytest.approx(tasks, rel=1e-12)
    shares = asset_shares(answer)
    assert shares == pytest.approx(np.full(2, shares[0]), rel=1e-12)
    assert answer.level == pytest.approx(shares, rel=1e-12)


def test_who_does_not_need_the_full_resource_goes_on():
    # CPU is full when both who need it have 2/3; the third takes all memory that is left.
    answer = asset(problem_of([[1, 1]], [[1, 0], [0.5, 0.5], [0, 1]]))
    assert answer.tasks == pytest.approx([2 / 3, 2 / 3, 2 / 3])
    answer = asset(problem_of([[1, 1]], [[1, 0], [1, 0], [0, 1]]))
    assert answer.tasks == pytest.approx([1 / 2, 1 / 2, 1])


def test_weights_scale_the_sums():
    # Sums 2:1 are 3 a / 8 = 2 (2 b / 8) with memory full: 2 a + b = 8.
    answer = asset(problem_of([[8, 8]], [[1, 2], [1, 1]], weight=[2, 1]))
    assert answer.tasks == pytest.approx([32 / 11, 24 / 11])


def test_a_satisfied_tenant_leaves_the_rest_to_the_others():
    answer = asset(problem_of([[9, 18]], [[1, 4], [3, 1]], tasks=[1, np.inf]))
    assert answer.tasks == pytest.approx([1, 8 / 3])
    assert answer.limited_by == ("task_limit", "resource:cpu")


def test_several_workloads_add_up():
    # One sum for both workloads of u1: CPU 6 a + 6 u2, memory 6 b: sums a + b = 2 c.
    answer = asset(problem_of([[12, 12]], [[1, 0], [0, 1], [1, 1]], t=2, workload_tenant=[0, 0, 1]))
    assert asset_shares(answer) == pytest.approx([1, 1])
    assert answer.tasks == pytest.approx([6, 6, 6])


def test_best_effort_comes_second():
    answer = asset(
        problem_of(
            [[9, 18]],
            [[1, 4], [3, 1], [0, 1]],
            tasks=[1, 1, np.inf],
            best_effort=[False, False, True],
        )
    )
    assert answer.tasks == pytest.approx([1, 1, 13])


@EXAMPLES
@given(problem=problems(selectors=False))
def test_it_is_the_leximin_of_sums_of_shares(problem):
    expected = reference_shares(problem, pooled=True, summed=True)
    assert asset_shares(asset(problem)) == pytest.approx(expected, rel=1e-5, abs=1e-5)
