"""Test of which tenants are stuck in an open round of a leximin, as far as prices prove it.

Prices are float64. Where they are far apart, a lift of a tenant can cost less than the rounding of
the others' shares; no prices prove then that it is stuck. A round that is left open for that must
still show one of two facts of every tenant frozen in it that has tasks left. The first: the worth
of the servers beyond the cost of all shares does not pay for its share raised by ``OPEN_GAP``, a
part of the least size of levels where its own is less. The second: wherever it may run, that worth
is next to nothing beside the worth of what it demands there, which is then sold out. The unsold
worth is computed in fractions, so that prices of any size hide nothing.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from policies.arrays import BoolArray, FloatArray, grouped_sum
from policies.model.allocation import Allocation
from policies.model.certificate import Certificate
from policies.model.tolerance import AGREEMENT, LEVEL_TOLERANCE, OPEN_GAP
from policies.verification.exact_costs import Fractions
from policies.verification.exact_levels import Proven
from policies.verification.form import Form
from policies.verification.places import Places
from policies.verification.prices import Costs
from policies.verification.rounds import LevelRounds
from policies.verification.stated import Stated


def stuck_when_open(
    stated: Stated,
    places: Places,
    form: Form,
    allocation: Allocation,
    rounds: LevelRounds,
    prices: Proven,
) -> BoolArray:
    """Return the tenants (t',) that are proven to be stuck or, in open rounds, are so but for rounding.

    Args:
        stated: the problem; places: what prices are for; form: its participants.
        allocation: a feasible answer; rounds: of its certificate, which fit the problem.
        prices: what they prove exactly.
    """
    certificate = rounds.certificate
    stuck = prices.tenants.copy()
    frozen_in = rounds.frozen_in
    closed = np.array([item.proven for item in certificate.rounds], dtype=np.bool_)
    # The usual case needs no fractions, which are slow.
    if not len(closed) or (stuck | closed[frozen_in]).all():
        return stuck
    exact = Fractions.of(stated, places, rounds, allocation)
    shares = form.shares_of(allocation.tasks)
    for number in np.unique(frozen_in[~stuck & ~closed[frozen_in]]).tolist():
        mine = (frozen_in == number) & ~stuck
        rising = rounds.rising(number)
        unsold = max(exact.unsold(number, rising), Fraction(0))
        paid_up = _paid_up(rounds, number, unsold)
        stuck[mine] = (paid_up | _sold_out(form, certificate, number, shares, unsold))[mine]
    return stuck


def _paid_up(rounds: LevelRounds, number: int, unsold: Fraction) -> BoolArray:
    """Return the tenants (t',) whose group's raised level costs more than what is unsold.

    The level is raised by what may be open.
    """
    form, item = rounds.form, rounds.certificate.rounds[number]
    costs = Costs.at(form, item.prices)
    at, _ = costs.of_shares(np.minimum(form.cap, rounds.reached(number)))
    above, _ = costs.of_shares(np.minimum(form.cap, rounds.lifted(number, OPEN_GAP)))
    lift = grouped_sum(np.where(rounds.rising(number), above - at, 0.0), form.group, form.t)[
        form.group
    ]
    return np.array(
        [cost > 0 and Fraction(cost) > unsold for cost in lift.tolist()], dtype=np.bool_
    )


def _sold_out(
    form: Form, certificate: Certificate, number: int, shares: FloatArray, unsold: Fraction
) -> BoolArray:
    """Return the tenants (t',) of whose demands next to nothing is unsold.

    This holds wherever workloads with tasks left may run.
    """
    prices = certificate.rounds[number].prices[: len(form.capacity)]
    worth = (form.demand > 0) @ (form.capacity * prices).T
    least = np.where(form.allowed, worth, np.inf).min(axis=1, initial=np.inf)
    open_ = shares < form.limit * (1 - AGREEMENT)
    needed = np.full(form.t, np.inf)
    np.minimum.at(needed, form.owner[open_], least[open_])
    bounds = (LEVEL_TOLERANCE * needed).tolist()
    return np.array(
        [np.isinf(bound) or (bound > 0 and Fraction(bound) >= unsold) for bound in bounds],
        dtype=np.bool_,
    )
