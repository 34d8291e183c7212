"""Check of limits against a policy."""

from __future__ import annotations

from collections.abc import Iterable

from policies.errors import PolicyNotApplicableError, ProblemTooLargeError
from policies.model.limits import MOST_LIMITS
from policies.model.policy import Choice
from policies.model.problem import Problem


def check_limits(problem: Problem, choice: Choice, able: Iterable[str]) -> None:
    """Raise an error unless a choice keeps the limits of a problem, if there are any.

    Args:
        able: the policies that keep limits, which the error names.

    Raises:
        PolicyNotApplicableError: the policy keeps no limits, or none of some servers.
        ProblemTooLargeError: more limits than are kept.
    """
    if not problem.limits:
        return
    if not choice.policy.takes_limits:
        raise PolicyNotApplicableError(
            "policy.no_limits",
            f"policy {choice.policy.name!r} does not keep limits; these do: {', '.join(sorted(able))}",
            "/policy/name",
        )
    if len(problem.limits) > MOST_LIMITS:
        raise ProblemTooLargeError(
            "problem.too_large",
            f"{len(problem.limits)} limits; at most {MOST_LIMITS} are kept",
        )
    for limit in problem.limits:
        if choice.sees_one_pool and limit.where:
            raise PolicyNotApplicableError(
                "policy.no_placement",
                f"policy {choice.policy.name!r} sees the pool as one server: a limit cannot be for the "
                "servers that a selector matches",
                f"/{limit.scope}s/{limit.node}/limit",
            )
