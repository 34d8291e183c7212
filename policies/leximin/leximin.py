"""The weighted leximin of shares, in flat pools and in trees of groups."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from policies.errors import SolveFailedError
from policies.leximin.group_rounds import GroupRounds
from policies.leximin.interior_point.method import NoConvergenceError
from policies.leximin.realisation import place_shares
from policies.leximin.rounds import SMALL, Leximin, Rounds, exact_shares
from policies.model.certificate import Certificate
from policies.model.tolerance import SOLVER_TOLERANCE
from policies.proofs.group_bounds import lifts
from policies.proofs.level_bounds import TOO_FAR_APART
from policies.proofs.normal_form import LeximinProblem


def leximin(problem: LeximinProblem, deadline: float | None) -> Leximin:
    """Solve the leximin to a certified relative gap of 1e-9 on every level.

    Rounds that no prices prove to that are left open (``Round.proven``).

    Raises:
        SolveTimeoutError: ``deadline`` (``time.monotonic`` seconds) passed.
        SolveFailedError: a round could not be certified.
    """
    if problem.t == 0:
        nothing = np.zeros(0)
        return Leximin(
            nothing,
            nothing,
            np.zeros((0, problem.K)),
            Certificate((), np.zeros(0, dtype=np.int64)),
            programs=0,
        )
    rounds = Rounds if problem.groups is None else GroupRounds
    if problem.allowed.size > SMALL and not problem.progressive_filling and not problem.has_amounts:
        answer = rounds(problem, deadline, interior=True).run()
        if _realised(problem, answer):
            return answer
    answer = rounds(problem, deadline, interior=False).run()
    if _realised(problem, answer):
        return answer
    # The error below has the reason; that this attempt failed as well adds nothing.
    with suppress(NoConvergenceError):
        x = place_shares(problem, answer.share, deadline)
        answer = replace(answer, x=exact_shares(problem, x, answer.share))
    if _realised(problem, answer):
        return answer
    raise SolveFailedError(
        "solve.failed", f"the proven levels could not be realised: {TOO_FAR_APART}"
    )


def _realised(problem: LeximinProblem, answer: Leximin) -> bool:
    """Return True if ``x`` gives each tenant its proven share after it was made feasible."""
    scale = answer.share
    if problem.groups is not None:
        # In trees a level moves with those above it: errors are relative to what it can rise to.
        scale = lifts(answer.share, problem.groups.part, float(answer.share.sum()))
    missed = np.abs(problem.tenant_sums(answer.x) - answer.share)
    return not (missed > SOLVER_TOLERANCE * scale).any()
