"""One number of an answer changed by a visible amount: `verify` has to refuse every such answer."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import solve, verify
from tests.examples import examples
from tests.unit.policies.problems import problem_of, problems
from tests.unit.policies.tampering import tampered

DIVISIBLE = ("drf", "asset", "drfh")
WHOLE = ("drf", "asset", "single-resource", "slots", "drfh")


def refused(problem, answer, data):
    assert [check for check in verify(problem, answer).checks if not check.holds] == []
    change = data.draw(tampered(answer))
    if change is not None:
        what, changed = change
        assert not verify(problem, changed).valid, what


@pytest.mark.parametrize("policy", DIVISIBLE)
@examples(500)
@given(data=st.data())
def test_of_divisible_tasks(policy, data):
    problem = data.draw(problems(selectors=policy == "drfh"))
    refused(problem, solve(problem, policy), data)


@pytest.mark.parametrize("policy", WHOLE)
@examples(500)
@given(data=st.data())
def test_of_whole_tasks(policy, data):
    problem = data.draw(problems(selectors=policy == "drfh"))
    refused(problem, solve(problem, policy, mode="indivisible"), data)


@pytest.mark.parametrize("pack", [False, True])
@examples(500)
@given(data=st.data())
def test_of_time_division_proven_or_left_open(pack, data):
    problem = data.draw(problems(max_tenants=4, max_servers=2, selectors=pack))
    effort = data.draw(st.sampled_from([1e-9, 1e-5, 1.0]))
    refused(problem, solve(problem, "tda", options={"pack": pack, "effort": effort}), data)


def test_a_task_given_to_the_tenant_that_has_more_is_found():
    """3 and 2 of equal tasks fill the pool; 4 and 1 fill it too, but not by the order of shares."""
    problem = problem_of([[5, 5]], [[1, 1], [1, 1]])
    answer = solve(problem, "drf", mode="indivisible")
    assert answer.tasks.tolist() == [3, 2]
    unfair = replace(answer, tasks=np.array([4.0, 1.0]), level=np.array([0.8, 0.2]), objective=0.2)
    found = [check.name for check in verify(problem, unfair).checks if not check.holds]
    assert found == ["nobody_passed_over"]
