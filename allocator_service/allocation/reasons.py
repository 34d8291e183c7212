"""Reasons of a decision that name groups, and the budgets behind them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from allocator_service.pools.budgets import Then

_LIMIT_OF_TENANT = "limit:tenant"
_LIMIT_OF_GROUP = "limit:group:"


def group_of_reason(limited_by: str) -> str | None:
    """Return the group whose limit a reason names, or None."""
    prefix, found, slug = limited_by.partition(_LIMIT_OF_GROUP)
    return slug if found and not prefix else None


def reason_renamed(limited_by: str, name: Callable[[str], str]) -> str:
    """Return a reason with another name for the group that it names."""
    slug = group_of_reason(limited_by)
    return limited_by if slug is None else f"{_LIMIT_OF_GROUP}{name(slug)}"


def budget_of_reason(
    limited_by: str,
    *,
    tenant: str,
    demands: Collection[str],
    budgets: Iterable[Mapping[str, Any]],
) -> Mapping[str, Any] | None:
    """Return the exhausted budget that a reason of a workload stands for, or None.

    An exhausted budget that stops its node is a limit of 0 in the decision, and the reason names the
    node. Proofs contain the reason, so it names limits of both origins alike.

    Args:
        tenant: slug of the workload's tenant.
        demands: names of the resources that a task demands.
        budgets: exhausted budgets as the run stores them.
    """
    node = ("group", group_of_reason(limited_by))
    if limited_by == _LIMIT_OF_TENANT:
        node = ("tenant", tenant)
    return next(
        (
            each
            for each in budgets
            if each["then"] == Then.STOP
            and (each["scope"], each["node"]) == node
            and each["resource"] in demands
        ),
        None,
    )
