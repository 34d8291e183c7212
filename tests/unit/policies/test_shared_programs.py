"""Rounds in groups whose ends are confirmed by one program for several of them."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.groups import grouped_pool
from benchmarks.limits import limited_pool
from policies import Limit, Problem, normalise, solve, verify
from policies.leximin.group_rounds import GroupRounds
from policies.model.server_classes import server_classes


class ByPrograms(GroupRounds):
    """Rounds that are solved by programs, each by its own."""

    @property
    def _needs_program(self):
        return True

    @_needs_program.setter
    def _needs_program(self, value):
        """Ignore what the rounds find out."""


class Counted(GroupRounds):
    """Rounds that count how often they go back."""

    went_back = 0

    def _confirm(self):
        confirmed = super()._confirm()
        self.went_back += not confirmed
        return confirmed


def form_of(tenants, groups, limits, seed):
    """The normalised problem of a pool in groups, and the pool."""
    problem = limited_pool(grouped_pool(tenants, groups, seed=seed), limits, seed=seed)
    return problem, normalise(problem, server_classes(problem)).leximin


@pytest.mark.parametrize(("seed", "tenants"), [(0, 120), (3, 40), (8, 120), (2, 40), (7, 120)])
def test_rounds_that_share_a_program_are_those_of_a_program_each(seed, tenants):
    groups, limits = (14, 30) if tenants == 40 else (40, 60)
    problem, form = form_of(tenants, groups, limits, seed)
    shared = GroupRounds(form, None, interior=False).run()
    alone = ByPrograms(form, None, interior=False).run()
    assert shared.share == pytest.approx(alone.share, rel=1e-9)
    assert shared.certificate.frozen_in.tolist() == alone.certificate.frozen_in.tolist()
    levels = [[item.level for item in each.certificate.rounds] for each in (shared, alone)]
    assert levels[0] == pytest.approx(levels[1], rel=1e-9)
    assert form.tenant_sums(shared.x) == pytest.approx(shared.share, rel=1e-9)
    assert shared.programs < alone.programs
    assert verify(problem, solve(problem, "drfh")).valid


def test_a_limit_beyond_what_a_class_of_servers_has_is_reached_after_it():
    """The first group fills its servers before the second one is at its limit."""
    problem = Problem.create(
        resources=["cpu"], capacity=[[10], [100]],
        server_labels=[{"kind": "old"}, {"kind": "new"}],
        tenants=["a", "b", "c", "d", "e"], demand=[[1]] * 5,
        selectors=[{"kind": "old"}, {"kind": "old"}, {}, {}, {}],
        groups=["first", "second"], tenant_group=[0, 0, 1, 1, -1],
        limits=[Limit("group", 1, np.array([30.0]))],
    )  # fmt: skip
    rounds = Counted(normalise(problem, server_classes(problem)).leximin, None, interior=False)
    rounds.run()
    assert rounds.went_back == 1
    answer = solve(problem, "drfh")
    assert answer.tasks.tolist() == pytest.approx([5, 5, 15, 15, 70], rel=1e-12)
    assert verify(problem, answer).valid


def test_weights_far_apart_have_a_program_each():
    problem, form = form_of(120, 40, 60, 0)
    far = replace(problem, weight=np.r_[1e5, np.ones(problem.t - 1)])
    shared = GroupRounds(form, None, interior=False).run()
    alone = GroupRounds(normalise(far, server_classes(far)).leximin, None, interior=False).run()
    assert shared.programs <= 2
    assert alone.programs >= len(alone.certificate.rounds)


def test_one_program_confirms_all_ends_that_limits_bound():
    problem, _ = form_of(900, 60, 200, 2)
    answer = solve(problem, "drfh")
    assert answer.statistics["rounds"] > 10
    assert answer.statistics["programs"] <= 4
    assert verify(problem, answer).valid


def test_the_first_end_that_is_not_feasible_is_found():
    """Among seven ends, each of which may be the last feasible one."""
    _, form = form_of(120, 40, 60, 0)
    for last in range(-1, 7):
        rounds = GroupRounds(form, None, interior=False)
        taken = []
        feasible = rounds._is_feasible

        def only_some(shares, last=last, feasible=feasible, taken=taken, rounds=rounds):
            ends = [*(state.now for state in rounds._unconfirmed[1:]), rounds.now]
            # The end of the round that follows is in none of the states.
            at = next((number for number, end in enumerate(ends) if end is shares), len(ends))
            taken.append(at)
            return at <= last and feasible(shares)

        rounds._is_feasible = only_some
        confirm = rounds._confirm

        def first_time(confirm=confirm, rounds=rounds):
            confirmed = confirm()
            if not confirmed:
                del rounds._is_feasible, rounds._confirm
            return confirmed

        rounds._confirm = first_time
        answer = rounds.run()
        assert len(taken) <= 6
        assert (last in taken) or last == -1
        plain = GroupRounds(form, None, interior=False).run()
        assert answer.share == pytest.approx(plain.share, rel=1e-9)
        assert np.array_equal(answer.certificate.frozen_in, plain.certificate.frozen_in)
