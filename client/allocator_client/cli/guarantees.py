"""Guarantees and loans of the nodes of a tree, as texts.

An older service has no such fields.
"""

from collections.abc import Iterator, Mapping

from allocator_client._generated.documents.decisions import TreeNodeDocument
from allocator_client.cli.words import fulfilment, limit_text


def guarantee_texts(node: TreeNodeDocument, unit: Mapping[str, str]) -> Iterator[str]:
    """Yield what is guaranteed to a node, with the part that is met if the reader sees it."""
    for each in node.get("guarantee", []):
        text = limit_text(each["amount"], None, each["where"], unit)
        met = fulfilment(each["met"], each["limited_by"])
        yield f"{text}: {met}" if met else text
    if own := node.get("own_servers"):
        yield f"own servers: {fulfilment(own['met'], own['limited_by'])}"


def loan_texts(node: TreeNodeDocument, unit: Mapping[str, str]) -> Iterator[str]:
    """Yield the most that others may have on the servers of a member, with what they have."""
    for each in node.get("lend", []):
        yield limit_text(each["amount"], each["has"], each["where"], unit)
