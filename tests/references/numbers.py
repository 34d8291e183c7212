"""Numbers of problems as fractions."""

from fractions import Fraction


def exact(value):
    """The decimal that a float was written as."""
    return Fraction(repr(float(value)))


def exact_weights(problem):
    """The tenants' weights within their stage as fractions: contributed shares are seldom decimal."""
    weights = [exact(weight) for weight in problem.weight]
    if problem.derived_weight is problem.weight:
        return weights
    rows = range(problem.k)
    amount = [
        [exact(c) * int(problem.server_count[row]) for c in problem.capacity[row]] for row in rows
    ]
    offered = [row for row in rows if not problem.contributed_only[row]]
    totals = [sum(amount[row][r] for row in offered) for r in range(problem.m)]

    def contributed(tenant):
        mine = [row for row in rows if problem.contributed_by[row] == tenant]
        return max(
            sum((amount[row][r] for row in mine), Fraction(0)) / total
            for r, total in enumerate(totals)
            if total
        )

    return [
        weight if problem.second_stage[i] else weight * contributed(i)
        for i, weight in enumerate(weights)
    ]
