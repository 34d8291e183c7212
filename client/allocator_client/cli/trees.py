"""The command `alloc tree`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import click

from allocator_client._generated.documents.decisions import TreeNodeDocument
from allocator_client.cli.guarantees import guarantee_texts, loan_texts, stop_text
from allocator_client.cli.output import echo, print_pieces, print_rows, table
from allocator_client.cli.session import Session, pool_argument, units, with_session
from allocator_client.cli.words import limit_text, number, percent

_NO_LIMIT = "no limit"
_ROUNDING = 1e-9


@click.command()
@pool_argument
@with_session(csv=True)
def tree(session: Session, pool: str | None) -> None:
    """Show the tree of groups and members.

    PART is the node's fraction of the pool by the weights on its path. LEVEL is the greatest share of a
    resource divided by the weight, by which siblings are compared. Each resource has two columns: the
    amount that the decision in force allocates to the node and all below it, and their demand, WANTS.
    Three columns are shown if any such amount is in force. LIMIT is the allocated part of each limit, or
    the exhausted budget that stops the node.
    GUARANTEED is the guaranteed amount and the fraction that is met. LENDS is the amount that others
    have of the most that a member lends. A tenant's key sees the numbers of other nodes in transparent
    pools only. A key of a group sees its group and all below it.
    """
    slug = session.pool(pool)
    client = session.client
    found = client.pools_decision_show(slug).body
    rows = client.runs_tree_list(found["run"]["id"])
    if session.format == "csv":
        print_pieces(rows.text("csv"))
    elif session.format == "json":
        print_rows(rows, around={"decision": found}, member="tree")
    else:
        unit = units(client.pools_show(slug).body)
        nodes = cast("list[TreeNodeDocument]", list(rows))
        amounts = []
        for name, measure in unit.items():
            title = f">{name.upper()} ({measure})" if measure else f">{name.upper()}"
            amounts += [title, ">WANTS"]
        titles = ["NODE", ">WEIGHT", ">PART", ">LEVEL", *amounts]
        lines: list[Sequence[str]] = [_pool_row(slug, nodes, unit), *_node_rows(nodes, unit)]
        for title, texts in (
            ("LIMIT", _limits), ("GUARANTEED", guarantee_texts), ("LENDS", loan_texts),
        ):  # fmt: skip
            cells = ["; ".join(texts(node, unit)) for node in nodes]
            if any(cells):
                titles.append(title)
                lines = [(*line, text) for line, text in zip(lines, ["", *cells], strict=True)]
        table(titles, lines)
        echo(f"\nBy the decision of generation {found['generation']:,} of {slug}.")


def _pool_row(
    slug: str, nodes: Sequence[TreeNodeDocument], unit: Mapping[str, str]
) -> Sequence[str]:
    """Return the row of the pool with the sums of its children, where all are known."""
    top = [node for node in nodes if node["parent"] is None]
    parts = [node["part"] or 0.0 for node in top]
    # A key of a group sees its part of the pool. Without parts, weights do not count.
    is_part = 0 < sum(parts) < 1 - _ROUNDING
    cells = []
    for name in unit:
        has = [None if node["has"] is None else float(node["has"].get(name, 0)) for node in top]
        wants = [_wants(node, name) for node in top]
        if is_part:
            has, wants = [None], [None]
        # A sum without the hidden numbers would look like that of the pool.
        cells.append(number(None if None in has else sum(cast("list[float]", has))))
        if _NO_LIMIT in wants:
            cells.append(_NO_LIMIT)
        else:
            cells.append(number(None if None in wants else sum(cast("list[float]", wants))))
    return (slug, number(None), percent(1), number(None), *cells)


def _node_rows(
    nodes: Sequence[TreeNodeDocument], unit: Mapping[str, str]
) -> Iterator[Sequence[str]]:
    for node, lines in zip(nodes, _lines([node["depth"] for node in nodes]), strict=True):
        cells = []
        for name in unit:
            has = None if node["has"] is None else node["has"].get(name, 0)
            wants = _wants(node, name)
            cells += [number(has), wants if isinstance(wants, str) else number(wants)]
        label = node["name"] + ("/" if node["kind"] == "group" else "")
        tier = f" (tier {node['tier']})" if node["tier"] else ""
        best_effort = " (best effort)" if node["best_effort"] else ""
        yield (
            f"{lines}{label}{tier}{best_effort}",
            number(node["weight"]),
            percent(node["part"]),
            number(node["level"]),
            *cells,
        )


def _limits(node: TreeNodeDocument, unit: Mapping[str, str]) -> Iterator[str]:
    # An older service has no limits.
    for each in node.get("limit", []):
        yield stop_text(each) or limit_text(each["amount"], each["has"], each["where"], unit)


def _wants(node: TreeNodeDocument, name: str) -> float | str | None:
    """Return the demand of a resource, or `no limit`. None is hidden from the reader."""
    if node["wants"] is None:
        return None
    amount = node["wants"].get(name, 0.0)
    return _NO_LIMIT if amount is None else amount


def _lines(depths: Sequence[int]) -> list[str]:
    """Return the lines to draw before each node, from the depths of the nodes in order.

    >>> _lines([0, 1, 1, 0])
    ['├── ', '│   ├── ', '│   └── ', '└── ']
    """
    drawn = []
    # From the end: a line goes on where a later node continues the same siblings.
    goes_on: list[bool] = []
    for depth in reversed(depths):
        goes_on = [*goes_on[: depth + 1], *[False] * (depth + 1 - len(goes_on))]
        above = "".join("│   " if line else "    " for line in goes_on[:depth])
        drawn.append(above + ("├── " if goes_on[depth] else "└── "))
        goes_on[depth] = True
    return drawn[::-1]
