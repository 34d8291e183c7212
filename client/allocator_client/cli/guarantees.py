"""Guarantees, loans and exhausted budgets of the nodes of a tree, as texts.

An older service has no such fields.
"""

from collections.abc import Iterator, Mapping, Sequence

from allocator_client._generated.documents.decisions import (
    RunSummaryGuaranteesUnmet,
    TreeNodeDocument,
    TreeNodeLimit,
)
from allocator_client._generated.documents.what_if import EvaluationSummaryGuaranteesUnmet
from allocator_client.cli.words import NONE, fulfilment, hours, instant, limit_text

Unmet = RunSummaryGuaranteesUnmet | EvaluationSummaryGuaranteesUnmet


def guarantee_texts(node: TreeNodeDocument, unit: Mapping[str, str]) -> Iterator[str]:
    """Yield what is guaranteed to a node, with the part that is met if the reader sees it."""
    for each in node.get("guarantee", []):
        text = limit_text(each["amount"], None, each["where"], unit)
        met = fulfilment(each["met"], each["limited_by"])
        yield f"{text}: {met}" if met else text
    if own := node.get("own_servers"):
        yield f"own servers: {fulfilment(own['met'], own['limited_by'])}"


def stop_text(limit: TreeNodeLimit) -> str:
    """Return the exhausted budget whose limit of 0 it is, empty for a limit that is set."""
    budget = limit.get("budget")  # an older service has none
    if not budget:
        return ""
    part = hours(budget["amount"], budget["spent"])
    return f"{part} of {budget['resource']} are spent until {instant(budget['opens_at'])}"


def loan_texts(node: TreeNodeDocument, unit: Mapping[str, str]) -> Iterator[str]:
    """Yield the most that others may have on the servers of a member, with what they have."""
    for each in node.get("lend", []):
        yield limit_text(each["amount"], each["has"], each["where"], unit)


def unmet_text(unmet: Unmet, unit: Mapping[str, str]) -> str:
    """Return how far a guarantee is met, with the reason for the rest."""
    return f"{_named(unmet, unit)}: {fulfilment(unmet['met'], unmet['limited_by'])}."


def unmet_changes(
    before: Sequence[Unmet], after: Sequence[Unmet], unit: Mapping[str, str]
) -> Iterator[str]:
    """Yield how far unmet guarantees are met after changes and before."""
    was, then = ({_named(each, unit): each for each in side} for side in (before, after))
    for name in [*then, *(name for name in was if name not in then)]:
        now, earlier = (
            fulfilment(side[name]["met"], side[name]["limited_by"]) if name in side else "met"
            for side in (then, was)
        )
        yield f"{name}: {now}; before: {earlier}."


def _named(unmet: Unmet, unit: Mapping[str, str]) -> str:
    node = unmet["node"]
    whose = f"group {node['group']}" if "group" in node else node.get("tenant", NONE)
    if "amount" not in unmet:
        return f"The own servers of {whose}"
    text = limit_text(unmet["amount"], None, unmet.get("where", {}), unit)
    return f"The guarantee of {whose} ({text})"
