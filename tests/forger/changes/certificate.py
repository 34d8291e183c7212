"""Other prices and rounds."""

from dataclasses import replace

import numpy as np

from tests.forger.changes.base import change
from tests.forger.changes.shares import with_rounds


@change
def no_certificate(case, rng):
    return case.with_answer(certificate=None) if case.answer.certificate is not None else None


def priced(case, turn):
    return with_rounds(case, lambda _, item: replace(item, prices=turn(item.prices)))


@change
def prices_scaled(case, rng):
    return priced(case, lambda prices: prices * 2.0)


@change
def prices_zeroed(case, rng):
    return priced(case, lambda prices: prices * 0.0)


@change
def prices_of_classes_reordered(case, rng):
    return priced(case, lambda prices: prices[::-1])


@change
def prices_of_resources_reordered(case, rng):
    return priced(case, lambda prices: prices[..., ::-1])


@change
def prices_all_alike(case, rng):
    return priced(case, lambda prices: np.ones_like(prices))


@change
def prices_below_zero(case, rng):
    return priced(case, lambda prices: -prices)


@change
def prices_not_numbers(case, rng):
    return priced(case, lambda prices: prices * np.nan)


@change
def prices_of_fewer_places(case, rng):
    return priced(case, lambda prices: prices[:-1])


@change
def one_price_higher(case, rng):
    return priced(
        case,
        lambda prices: prices * np.where(rng.random(prices.shape) < 0.5, 1.01, 1.0),
    )


@change
def rounds_reordered(case, rng):
    certificate = case.answer.certificate
    if certificate is None or len(certificate.rounds) < 2:
        return None
    return case.with_answer(certificate=replace(certificate, rounds=certificate.rounds[::-1]))


@change
def rounds_and_tenants_reordered(case, rng):
    certificate = case.answer.certificate
    if certificate is None or len(certificate.rounds) < 2:
        return None
    last = len(certificate.rounds) - 1
    frozen = np.where(certificate.frozen_in < 0, -1, last - certificate.frozen_in)
    reordered = replace(certificate, rounds=certificate.rounds[::-1], frozen_in=frozen)
    return case.with_answer(certificate=reordered)


@change
def first_round_twice(case, rng):
    certificate = case.answer.certificate
    if certificate is None or not certificate.rounds:
        return None
    rounds = (certificate.rounds[0], *certificate.rounds)
    return case.with_answer(certificate=replace(certificate, rounds=rounds))


@change
def last_round_dropped(case, rng):
    certificate = case.answer.certificate
    if certificate is None or not certificate.rounds:
        return None
    return case.with_answer(certificate=replace(certificate, rounds=certificate.rounds[:-1]))


@change
def tenants_frozen_in_other_rounds(case, rng):
    certificate = case.answer.certificate
    if certificate is None or len(certificate.frozen_in) < 2:
        return None
    frozen = np.roll(certificate.frozen_in, 1)
    return case.with_answer(certificate=replace(certificate, frozen_in=frozen))


@change
def levels_of_rounds_higher(case, rng):
    return with_rounds(case, lambda _, item: replace(item, level=item.level * (1 + 1e-6)))


@change
def bounds_of_rounds_lower(case, rng):
    return with_rounds(case, lambda _, item: replace(item, bound=item.bound * (1 - 1e-6)))


@change
def stages_of_rounds_swapped(case, rng):
    return with_rounds(case, lambda _, item: replace(item, stage=1 - item.stage))
