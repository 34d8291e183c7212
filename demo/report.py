"""Reports of a decision, as a table for the terminal and as a picture."""

from collections.abc import Sequence
from typing import Any

from allocator_service.core.charts import BarRow, bar_chart
from demo import sample
from demo.main_job import Decision

_RESOURCES = ("cpu", "memory")
_COLUMNS = (
    *("tenant", "brought cpu", "memory", "tasks", "got cpu", "memory", "dominant share"),
    *("weighted", "limited by"),
)


def table(decision: Decision) -> str:
    """Return the decision as text and a table, with the checks that verified it."""
    rows = [_COLUMNS, *(_row(allocation) for allocation in decision.allocations)]
    checks = decision.verification["checks"]
    valid = decision.verification["valid"]
    return "\n".join(
        [
            "",
            *_headline(decision),
            "",
            *_align(rows),
            "",
            f"Verified without a solver: {'valid' if valid else 'INVALID'}",
            *(f"  {'ok' if each['holds'] else 'FAILED':<6} {each['name']}" for each in checks),
        ]
    )


def picture(decision: Decision) -> str:
    """Return the decision as an SVG document."""
    got = {allocation["tenant"]: _got_percent(allocation) for allocation in decision.allocations}
    rows = [
        BarRow(group.name, got[group.slug], sample.brought_percent(group.slug))
        for group in sample.GROUPS
    ]
    servers = decision.run["summary"]["servers"]
    return bar_chart(
        title=f"Who may run how much, and who brought what: exact DRFH on {servers:,} servers",
        unit="per cent of the pool's total",
        series=("CPU, allocated", "memory, allocated"),
        rows=rows,
        marked="contributed",
    ).svg


def _headline(decision: Decision) -> list[str]:
    run, summary = decision.run, decision.run["summary"]
    used = ", ".join(f"{value:.1%} of {name}" for name, value in summary["utilization"].items())
    took = f"{decision.seconds:.2f} s after it ({run['solve_seconds']:.3f} s in the solver)"
    of = f"{summary['servers']:,} servers of {summary['server_classes']} classes"
    return [
        f"Decision of generation {run['generation']}, {took}, policy {run['policy']['name']}:",
        f"{summary['tenants']} tenants on {of} use {used}",
    ]


def _row(allocation: dict[str, Any]) -> tuple[str, ...]:
    brought = sample.brought_percent(allocation["tenant"])
    got = _got_percent(allocation)
    weighted = allocation["weighted_share"]
    return (
        allocation["tenant"],
        *(f"{percent:.1f} %" for percent in brought),
        f"{allocation['tasks']:,.1f}",
        *(f"{percent:.1f} %" for percent in got),
        f"{allocation['dominant_resource']} {allocation['dominant_share']:.2%}",
        # Tenants that are served with what others leave have no weighted share.
        "-" if weighted is None else f"{weighted:.4f}",
        allocation["limited_by"],
    )


def _got_percent(allocation: dict[str, Any]) -> tuple[float, ...]:
    totals = sample.totals()
    return tuple(
        100 * float(allocation["resources"].get(name, 0)) / totals[name] for name in _RESOURCES
    )


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows with columns of equal width.

    The first and last columns are aligned to the left, numbers to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(width) if index in (0, last) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
