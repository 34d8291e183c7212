"""Every drawn pool is decided, and the decision holds as it is and as it is written and read."""

import json

import pytest

from policies import allocation_from_document, allocation_to_document, choose, solve, verify
from tests.examples import numbers
from tests.unit.policies.drawn_pools import Draw


@pytest.mark.parametrize("seed", numbers(800))
def test_a_drawn_pool_is_decided_and_verified(seed):
    draw = Draw(seed)
    answer = solve(draw.problem, draw.policy, mode=draw.mode, options=draw.options)
    document = allocation_to_document(answer, ("placements", "certificate"))
    choice = choose(draw.policy, draw.mode, draw.options)
    again = allocation_from_document(json.loads(json.dumps(document)), draw.problem, choice)
    for each in (answer, again):
        found = verify(draw.problem, each)
        assert found.valid, [check for check in found.checks if not check.holds]
