"""Questions of exact levels have one answer in long floats, whole numbers and fractions."""

import numpy as np
import pytest

from policies import solve
from policies.verification.exact_costs import ALL_TENANTS, Fractions
from policies.verification.form import form_of
from policies.verification.long_levels import LongLevels
from policies.verification.rounds import rounds_of
from policies.verification.stated import Stated
from tests.examples import numbers
from tests.unit.policies.drawn_pools import Draw

SEEDS = 240
QUESTIONS_OF_A_ROUND = 12


@pytest.mark.parametrize("seed", numbers(SEEDS))
def test_long_floats_and_whole_numbers_answer_as_fractions_do(seed):
    draw = Draw(seed)
    if draw.mode != "divisible" or draw.policy not in ("drf", "drfh"):
        return
    answer = solve(draw.problem, draw.policy, mode=draw.mode, options=draw.options)
    steps = [answer] if answer.floors is None else [answer.floors.raised, answer.floors.rest]
    for step in steps:
        stated = Stated(step.problem, step.choice)
        places = stated.places()
        form = form_of(stated, places)
        rounds = rounds_of(stated, form, step.certificate)
        exact = Fractions.of(stated, places, rounds, step)
        for number in range(len(step.certificate.rounds)):
            rising = rounds.rising(number)
            groups = np.unique(form.group[rising])[: QUESTIONS_OF_A_ROUND - 1]
            asked = np.r_[ALL_TENANTS, groups]
            expected = np.array(
                [
                    not exact.wants_more(number, rising, group)
                    or exact.cost(number, rising, group) > exact.worth(number)
                    for group in asked.tolist()
                ]
            )
            found = [exact.cannot_be_lifted(number, rising, group) for group in asked.tolist()]
            assert found == expected.tolist()
            if LongLevels.can_ask(stated):
                finer = LongLevels(stated, places, rounds, step)
                yes, no = finer.answers(number, rising, asked, ALL_TENANTS)
                assert not (yes & ~expected).any()
                assert not (no & expected).any()


def test_long_floats_leave_few_questions_open():
    asked = left = 0
    # Of fewer, the last digits of two answers decide, which processors round differently.
    for seed in range(100):
        draw = Draw(seed)
        if draw.mode != "divisible" or draw.policy != "drfh":
            continue
        answer = solve(draw.problem, draw.policy, mode=draw.mode, options=draw.options)
        step = answer if answer.floors is None else answer.floors.rest
        stated = Stated(step.problem, step.choice)
        if not LongLevels.can_ask(stated):
            continue
        places = stated.places()
        form = form_of(stated, places)
        rounds = rounds_of(stated, form, step.certificate)
        finer = LongLevels(stated, places, rounds, step)
        for number in range(len(step.certificate.rounds)):
            groups = np.unique(form.group[rounds.rising(number)])
            yes, no = finer.answers(number, rounds.rising(number), groups, ALL_TENANTS)
            asked += len(groups)
            left += int((~yes & ~no).sum())
    if asked:  # there are processors without long floats
        assert left < asked / 15
