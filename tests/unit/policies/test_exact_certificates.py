"""The prices of every answer prove its levels in fractions; and the same input has the same bytes."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    Problem,
    SolveFailedError,
    choose,
    policies_available,
    registry,
    solve,
    verify,
)
from policies.leximin import drf
from policies.verification.exact_costs import ALL_TENANTS, Fractions
from policies.verification.exact_levels import proven
from policies.verification.form import form_of
from policies.verification.group_path import GroupPath
from policies.verification.rounds import rounds_of
from policies.verification.stated import Stated
from tests.examples import examples
from tests.references.exact import decimals, exact_problems
from tests.unit.policies.problems import problem_of, problems

TOLERANCE = Fraction(1, 10**9)


def worth_beyond(problem, answer, number):
    """How far the round's prices are from proving its level within the tolerance; <= 0: they do.

    Policies §3 as it is printed, for one unlimited workload per tenant.
    """
    item, frozen_in = answer.certificate.rounds[number], answer.certificate.frozen_in.tolist()
    prices = [[Fraction(p) for p in row] for row in item.prices.tolist()]
    offered = decimals(np.where(problem.contributed_only[:, None], 0.0, problem.capacity))
    counts = problem.server_count.tolist()
    total = [
        sum(c * row[r] for c, row in zip(counts, offered, strict=True)) for r in range(problem.m)
    ]
    worth = Fraction(0)
    for count, row, c in zip(counts, offered, answer.classes.class_of_row.tolist(), strict=True):
        if c >= 0:
            worth += sum(
                count * row[r] / total[r] * prices[c][r] for r in range(problem.m) if total[r]
            )
    cost_of_level, weights = Fraction(0), Fraction(0)
    for j, demand in enumerate(decimals(problem.demand)):
        i = int(problem.workload_tenant[j])
        if frozen_in[i] < 0:
            continue
        taken = [x / of if of else Fraction(0) for x, of in zip(demand, total, strict=True)]
        share = sum(taken) if answer.policy.name == "asset" else max(taken)
        allowed = np.flatnonzero(answer.classes.allowed[j]).tolist()
        price = min(
            sum(x / share * p for x, p in zip(taken, prices[c], strict=True)) for c in allowed
        )
        weight = Fraction(float(problem.effective_weight[i]))
        if frozen_in[i] < number:
            worth -= Fraction(float(answer.tasks[j])) * share * price
        elif problem.second_stage[i] == item.stage:
            cost_of_level += weight * price
            weights += weight
    level = Fraction(item.level)
    scale = max(level, Fraction(1, 100) / weights)
    return worth - cost_of_level * (level + TOLERANCE * scale)


@pytest.mark.parametrize("policy", ["drf", "drfh", "asset"])
@examples(500)
@given(data=st.data())
def test_a_gap_of_a_billionth_is_a_theorem_about_the_printed_numbers(policy, data):
    problem = data.draw(problems(selectors=policy == "drfh", several=False, limits=False))
    answer = solve(problem, policy)
    for number in range(len(answer.certificate.rounds)):
        assert worth_beyond(problem, answer, number) <= 0


@pytest.mark.parametrize("policy", ["drf", "drfh", "asset"])
@examples(500)
@given(data=st.data())
def test_what_the_filter_is_certain_of_is_so_in_fractions(policy, data):
    """Of levels as they are, a little lower, and by so little that the filter cannot tell."""
    drawn = (
        problems(selectors=policy == "drfh"),
        exact_problems(selectors=policy == "drfh").map(first),
    )
    problem = data.draw(st.one_of(*drawn))
    answer = solve(problem, policy)
    stated = Stated(problem, choose(policy, "divisible"))
    places = stated.places()
    form = form_of(stated, places)
    down = data.draw(st.sampled_from([0.0, 1e-9, 1e-9 * (1 + 1e-7), 1e-8, 1e-3]))
    rounds = tuple(
        replace(item, level=item.level * (1 - down)) for item in answer.certificate.rounds
    )
    certificate = replace(answer.certificate, rounds=rounds)
    shown = rounds_of(stated, form, certificate)
    found = proven(stated, places, form, answer, shown)
    exact = Fractions.of(stated, places, shown, answer)
    frozen_in = certificate.frozen_in[form.tenants]
    for number, item in enumerate(rounds):
        rising = (form.stage == item.stage) & (frozen_in >= number)
        assert found.levels[number] == exact.cannot_be_lifted(number, rising, ALL_TENANTS)
        for i in np.flatnonzero(frozen_in == number).tolist():
            group = int(form.group[i])
            full = form.cap[i] <= item.level * form.weight[i] * (1 + 1e-9)
            assert found.tenants[i] == (full or exact.cannot_be_lifted(number, rising, group))


def first(drawn):
    return drawn[0]


def test_levels_two_billionths_too_low_are_refused():
    problem = problem_of([[9, 18]], [[1, 4], [3, 1]])
    answer = solve(problem, "drf")
    low = answer.certificate.rounds[0].level * (1 - 2e-9)
    rounds = (replace(answer.certificate.rounds[0], level=low),)
    stated = replace(
        answer,
        tasks=answer.tasks * (1 - 2e-9),
        level=answer.level * (1 - 2e-9),
        objective=low,
        certificate=replace(answer.certificate, rounds=rounds),
    )
    refused = {check.name for check in verify(problem, stated).checks if not check.holds}
    assert {"levels_proven", "tenants_stuck"} <= refused


def test_an_answer_whose_prices_do_not_prove_it_does_not_leave_solve(monkeypatch):
    """The real solver's answer with less of everything: feasible, and not the best."""

    def less(request):
        answer = drf.solve_divisible(request)
        rounds = tuple(replace(item, level=item.level / 2) for item in answer.certificate.rounds)
        certificate = replace(answer.certificate, rounds=rounds)
        return replace(answer, tasks=answer.tasks / 2, certificate=certificate)

    monkeypatch.setitem(registry._SOLVERS, "drf", {"divisible": less})
    with pytest.raises(SolveFailedError, match="is not proven, its bound is"):
        solve(problem_of([[9, 18]], [[1, 4], [3, 1]]), "drf")


SCRIPT = """
import hashlib
import numpy as np
from policies import Problem, policies_available, solve
draw = np.random.default_rng(1)
problem = Problem.create(
    resources=("cpu", "memory", "gpu"), capacity=draw.random((30, 3)).round(2) + 1,
    tenants=[str(i) for i in range(150)], demand=draw.random((150, 3)).round(2) / 4 + 0.01,
    tasks=draw.choice([np.inf, 1, 5], 150), server_count=draw.integers(1, 9, 30),
)
small = Problem.create(
    resources=("cpu", "memory"), capacity=[[15, 15]], tenants=("a", "b", "c"),
    demand=[[5, 2], [3, 3.5], [2, 2]],
)
digest = hashlib.sha256()
for info in policies_available():
    for mode in info.modes:
        for _ in range(2):
            answer = solve(small if info.name == "tda" else problem, info.name, mode=mode)
            for part in (answer.tasks, answer.placement_tasks, answer.placement_class, answer.level):
                digest.update(part.tobytes())
            for item in answer.certificate.rounds if answer.certificate else ():
                digest.update(item.prices.tobytes() + np.float64(item.level).tobytes())
print(digest.hexdigest())
"""


def test_one_thread_and_two_give_the_same_bytes():
    found = set()
    for threads in ("1", "2"):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, threads)
        root = Path(__file__).parents[3]
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            cwd=root, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.add(ran.stdout)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("policy", "mode"), [(info.name, mode) for info in policies_available() for mode in info.modes]
)
@examples(100)
@given(data=st.data())
def test_asked_twice_it_answers_with_the_same_bytes(policy, mode, data):
    problem = data.draw(problems(selectors=False, max_tenants=3))
    digests = set()
    for _ in range(2):
        answer = solve(replace(problem), policy, mode=mode)
        digest = hashlib.sha256(repr((answer.limited_by, answer.objective, answer.bound)).encode())
        for part in (answer.tasks, answer.placement_tasks, answer.placement_class, answer.level):
            digest.update(part.tobytes())
        for item in answer.certificate.rounds if answer.certificate else ():
            digest.update(item.prices.tobytes() + np.array([item.level, item.bound]).tobytes())
        digests.add(digest.digest())
    assert len(digests) == 1


def pool_in_groups(tenants):
    random = np.random.default_rng(5)
    return Problem.create(
        resources=["cpu", "memory"], capacity=[[4, 9], [8, 3]],
        tenants=[f"t{i}" for i in range(tenants)],
        demand=random.uniform(0.1, 1, (tenants, 2)).round(3), groups=["g", "h"],
        tenant_group=np.arange(tenants) % 2,
    )  # fmt: skip


@pytest.mark.parametrize("tenants", [4, 40])
def test_a_round_in_groups_is_walked_as_often_for_many_tenants_as_for_few(tenants, monkeypatch):
    """A walk takes time in proportion to the tenants: one per tenant would make it quadratic."""
    problem = pool_in_groups(tenants)
    answer = solve(problem, "drfh")
    stated = Stated(problem, answer.choice)
    places = stated.places()
    form = form_of(stated, places)
    rounds = rounds_of(stated, form, answer.certificate)
    exact = Fractions.of(stated, places, rounds, answer)
    walks, walk = [], GroupPath.shares
    monkeypatch.setattr(
        GroupPath, "shares", lambda path, position: walks.append(1) or walk(path, position)
    )
    rising = rounds.rising(0)
    for group in (ALL_TENANTS, *np.unique(form.group).tolist()):
        exact.cannot_be_lifted(0, rising, group)
    assert exact.unsold(0, rising) >= 0
    # Between rounds, and of the first: at its level and raised.
    assert len(walks) <= len(answer.certificate.rounds) + 2


def test_costs_of_one_group_lifted_are_those_of_all_tenants_in_fractions():
    """What questions about a round share is no other for the second than for the first."""
    problem = pool_in_groups(12)
    answer = solve(problem, "drfh")
    stated = Stated(problem, answer.choice)
    places = stated.places()
    form = form_of(stated, places)
    rounds = rounds_of(stated, form, answer.certificate)
    shared = Fractions.of(stated, places, rounds, answer)
    for number in range(len(answer.certificate.rounds)):
        rising = rounds.rising(number)
        assert rising.any()
        for group in (ALL_TENANTS, *np.unique(form.group).tolist()):
            fresh = Fractions.of(stated, places, rounds, answer)
            expected = fresh.cannot_be_lifted(number, rising, group)
            assert shared.cannot_be_lifted(number, rising, group) == expected
        assert shared.unsold(number, rising) == fresh.unsold(number, rising)
