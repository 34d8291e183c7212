"""Expressions for named constraints on vectors, and the translation of their violations."""

from functools import cache

from django.apps import apps
from django.db import models
from django.db.models import Func

from allocator_service.core.errors import Conflict, DomainError, Unacceptable


class NonNegativeVector(Func):
    """The condition that every entry of an array of numerics is a number of at least 0."""

    template = "(0 <= ALL(%(expressions)s) AND NOT 'NaN' = ANY(%(expressions)s))"
    output_field = models.BooleanField()
    conditional = True


class PositiveSomewhere(Func):
    """The condition that some entry of an array of numerics is greater than 0."""

    template = "(0 < ANY(%(expressions)s))"
    output_field = models.BooleanField()
    conditional = True


class TimeRange(Func):
    """The half-open interval [start, end), where a null end is unbounded."""

    function = "TSTZRANGE"
    arity = 2


@cache
def _named_constraints() -> dict[str, models.BaseConstraint]:
    return {
        constraint.name: constraint
        for model in apps.get_models()
        for constraint in model._meta.constraints
    }


def domain_error_for(violated: str | None) -> DomainError | None:
    """Return the error for a violation of the constraint of this name.

    Code and sentence stand at the constraint (`violation_error_code`, `violation_error_message`).
    Returns None for a constraint that no model names.
    """
    constraint = _named_constraints().get(violated or "")
    if constraint is None or not constraint.violation_error_code:
        return None
    kind = Unacceptable if isinstance(constraint, models.CheckConstraint) else Conflict
    return kind(str(constraint.violation_error_message), code=constraint.violation_error_code)
