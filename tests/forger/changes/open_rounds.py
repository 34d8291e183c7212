"""Less for a tenant, under rounds that are left open; and numbers of other kinds."""

from dataclasses import replace

import numpy as np

from policies.model.certificate import Certificate, Round
from tests.forger.changes.base import change, one, rescaled, some


def less_for_one(case, rng, part):
    """(changed case, tenant, its level) with a part of a tenant's tasks; None where nobody runs."""
    answer, problem = case.answer, case.problem
    if answer.certificate is None or answer.schedule is not None or not answer.certificate.rounds:
        return None
    runs = np.bincount(problem.workload_tenant, weights=answer.tasks, minlength=problem.t) > 0
    i = some(rng, np.flatnonzero(runs & (answer.certificate.frozen_in >= 0)))
    if i is None:
        return None
    less = rescaled(case, np.where(problem.workload_tenant == i, part, 1.0))
    level = float(answer.level[i]) * part
    reasons = tuple(
        "level" if owner == i and reason == "task_limit" else reason
        for owner, reason in zip(problem.workload_tenant, answer.limited_by, strict=True)
    )
    return (
        less.with_answer(level=one(answer.level, i, level), limited_by=reasons),
        i,
        level,
    )


def with_certificate(case, rounds, frozen_in):
    first = rounds[0]
    gap = max((item.bound - item.level) / max(item.level, 1e-2) for item in rounds)
    return case.with_answer(
        certificate=Certificate(tuple(rounds), frozen_in),
        objective=first.level,
        bound=first.bound,
        gap=max(gap, 0.0),
    )


def open_round_of_its_own(case, rng, part, last):
    found = less_for_one(case, rng, part)
    if found is None:
        return None
    less, i, level = found
    certificate = case.answer.certificate
    own = certificate.rounds[int(certificate.frozen_in[i])]
    item = Round(own.stage, level, level, own.prices, proven=False)
    rounds = [replace(each, proven=False) for each in certificate.rounds]
    same = [k for k, each in enumerate(rounds) if each.stage == own.stage]
    place = same[-1] + 1 if last else same[0]
    rounds.insert(place, item)
    frozen = np.where(
        certificate.frozen_in >= place, certificate.frozen_in + 1, certificate.frozen_in
    )
    frozen[i] = place
    kept = [k for k in range(len(rounds)) if (frozen == k).any()]
    number = {k: position for position, k in enumerate(kept)}
    frozen = np.array([number.get(int(k), -1) for k in frozen])
    return with_certificate(less, [rounds[k] for k in kept], frozen)


@change
def half_for_one_in_an_open_round_before(case, rng):
    return open_round_of_its_own(case, rng, 0.5, last=False)


@change
def half_for_one_in_an_open_round_after(case, rng):
    return open_round_of_its_own(case, rng, 0.5, last=True)


@change
def a_little_less_for_one_in_an_open_round(case, rng):
    return open_round_of_its_own(case, rng, 1 - 1e-4, last=bool(rng.integers(2)))


@change
def one_open_round_of_all(case, rng):
    """Everybody has half, in one round, with prices of one resource alone."""
    answer = case.answer
    certificate = answer.certificate
    if certificate is None or answer.schedule is not None or not certificate.rounds:
        return None
    if len({item.stage for item in certificate.rounds}) > 1:
        return None
    prices = np.zeros_like(certificate.rounds[0].prices)
    prices[:, rng.integers(prices.shape[1])] = 1.0
    level = float(np.nanmin(answer.level[certificate.frozen_in >= 0])) * 0.5
    item = replace(certificate.rounds[0], level=level, bound=level, prices=prices, proven=False)
    half = rescaled(case, np.full(case.problem.n, 0.5)).with_answer(level=answer.level * 0.5)
    return with_certificate(half, [item], np.minimum(certificate.frozen_in, 0))


@change
def last_round_twice(case, rng):
    certificate = case.answer.certificate
    if certificate is None or not certificate.rounds:
        return None
    rounds = (*certificate.rounds, certificate.rounds[-1])
    return case.with_answer(certificate=replace(certificate, rounds=rounds))


@change
def rounds_of_tenants_as_fractions(case, rng):
    certificate = case.answer.certificate
    if certificate is None:
        return None
    frozen = certificate.frozen_in + float(rng.choice([0.9, 0.5, np.inf]))
    return case.with_answer(certificate=replace(certificate, frozen_in=frozen))


@change
def an_infinite_number(case, rng):
    value = float(rng.choice([np.inf, -np.inf]))
    name = str(rng.choice(["moved", "objective", "bound", "gap", "level", "tasks"]))
    if name in ("level", "tasks"):
        was = getattr(case.answer, name)
        return case.with_answer(**{name: one(was, rng.integers(len(was)), value)})
    return case.with_answer(**{name: value})


@change
def an_infinite_number_of_a_round(case, rng):
    certificate = case.answer.certificate
    if certificate is None or not certificate.rounds:
        return None
    name = str(rng.choice(["level", "bound", "stage"]))
    first = replace(certificate.rounds[0], **{name: float("inf")})
    rounds = (first, *certificate.rounds[1:])
    return case.with_answer(certificate=replace(certificate, rounds=rounds))
