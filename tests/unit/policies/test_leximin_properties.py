"""What must hold of every exact answer, tried on random problems."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policies import Problem, solve, verify
from policies.leximin import rounds
from tests.examples import examples
from tests.references.leximin import reference_shares
from tests.unit.policies.problems import problem_of, problems

# For each of the two ways to solve it.
EXAMPLES = examples(250, derandomize=True)
SLOW = examples(60, derandomize=True)
# The reference's own programs are solved to 1e-10 on rows that its rounds add up.
REFERENCE = {"rel": 1e-5, "abs": 1e-5}


@pytest.fixture(params=[0, rounds.SMALL], ids=["interior-point", "simplex"])
def engine(request, monkeypatch):
    """Every answer by interior points first, then by the simplex method alone."""
    monkeypatch.setattr(rounds, "SMALL", request.param)


def drfh(problem):
    answer = solve(problem, "drfh")
    verification = verify(problem, answer)
    assert verification.valid, [check for check in verification.checks if not check.holds]
    return answer


# The first stage fills all CPUs to the last digit; one task of what is left is free to u1.
LEFT_FOR_BEST_EFFORT = problem_of(
    [[1, 0, 0.25], [0.5, 0, 0]],
    [[0.1, 0, 0.1], [0, 0, 0.1], [0.1, 0, 0], [0.1, 0, 0]],
    server_count=[2, 3],
    t=3,
    workload_tenant=[2, 0, 0, 1],
    tasks=[1, 1, np.inf, np.inf],
    weight=[0.5, 0.5, 0.5],
    best_effort=[True, False, False],
)


@pytest.mark.usefixtures("engine")
class TestExactDrfh:
    @EXAMPLES
    @given(problem=problems())
    @example(problem=LEFT_FOR_BEST_EFFORT)
    def test_it_is_the_leximin_of_the_paper_s_rounds(self, problem):
        answer = drfh(problem)
        assert answer.tenant_share == pytest.approx(reference_shares(problem), **REFERENCE)

    @EXAMPLES
    @given(problem=problems(selectors=False))
    def test_drf_is_the_leximin_of_one_big_server(self, problem):
        answer = solve(problem, "drf")
        assert verify(problem, answer).valid
        expected = reference_shares(problem, pooled=True)
        assert answer.tenant_share == pytest.approx(expected, **REFERENCE)


@SLOW
@given(problem=problems())
def test_merging_identical_servers_changes_no_share(problem):
    merged = drfh(problem)
    rows = np.repeat(np.arange(problem.k), problem.server_count)
    apart = Problem.create(
        **{
            **_fields(problem),
            "server_names": None,
            "capacity": problem.capacity[rows],
            "server_count": None,
            "server_labels": [problem.server_labels[row] for row in rows],
            "contributed_by": problem.contributed_by[rows],
            "contributed_only": problem.contributed_only[rows],
        }
    )
    assert drfh(apart).tenant_share == pytest.approx(merged.tenant_share, rel=1e-8, abs=1e-10)


@SLOW
@given(problem=problems(), seed=st.integers(0, 9))
def test_the_order_of_tenants_and_workloads_does_not_matter(problem, seed):
    random = np.random.default_rng(seed)
    workloads, tenants = random.permutation(problem.n), random.permutation(problem.t)
    position = np.argsort(tenants)
    owner = problem.contributed_by
    shuffled = Problem.create(
        **{
            **_fields(problem),
            "tenants": [problem.tenants[i] for i in tenants],
            "weight": problem.weight[tenants],
            "best_effort": problem.best_effort[tenants],
            "contributed_by": np.where(owner >= 0, position[owner], -1),
            "workload_tenant": position[problem.workload_tenant[workloads]],
            "workload_names": [problem.workload_names[j] for j in workloads],
            "demand": problem.demand[workloads],
            "tasks": problem.tasks[workloads],
            "priority": problem.priority[workloads],
            "selectors": [problem.selectors[j] for j in workloads],
        }
    )
    before, after = drfh(problem), drfh(shuffled)
    assert after.tenant_share == pytest.approx(before.tenant_share[tenants], rel=1e-8, abs=1e-10)


@SLOW
@given(problem=problems(), scale=st.sampled_from([1e-3, 1 / 3, 1024.0]))
def test_units_do_not_matter(problem, scale):
    scales = np.full(problem.m, scale)
    scales[0] = 1.0
    rescaled = Problem.create(
        **{
            **_fields(problem),
            "capacity": problem.capacity * scales,
            "demand": problem.demand * scales,
        }
    )
    before, after = drfh(problem), drfh(rescaled)
    assert after.tasks == pytest.approx(before.tasks, rel=1e-6, abs=1e-7) or (
        after.tenant_share == pytest.approx(before.tenant_share, rel=1e-8, abs=1e-10)
    )


@SLOW
@given(problem=problems(limits=False, several=False, selectors=False, positive=True))
def test_positive_demands_stop_at_one_level(problem):
    answer = drfh(problem)
    first = answer.weighted_share[~np.isnan(answer.weighted_share)]
    served = first[first > 0]
    assert served == pytest.approx(np.full(len(served), first.max(initial=0.0)), rel=1e-8)


@examples(20, derandomize=True)
@given(problem=problems())
def test_identical_input_gives_identical_bytes(problem):
    first, again = solve(problem, "drfh"), solve(replace(problem), "drfh")
    assert first.tasks.tobytes() == again.tasks.tobytes()
    assert first.placement_tasks.tobytes() == again.placement_tasks.tobytes()
    assert first.limited_by == again.limited_by


def _fields(problem):
    names = (
        "resources units server_names capacity server_count server_labels contributed_by "
        "contributed_only tenants weight best_effort weights_mode workload_tenant "
        "workload_names demand tasks priority selectors"
    )
    return {name: getattr(problem, name) for name in names.split()}
