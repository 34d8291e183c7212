"""Answers, comparisons and verifications as aligned text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NOTHING = "-"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text as wide as their widest cell, numbers to the right."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    # Columns of numbers are aligned by their last digit, so that sizes are seen.
    numeric = [rows and all(_is_number(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def number(value: float | None) -> str:
    """Return a number in six digits, a whole one without a point."""
    return NOTHING if value is None else f"{value:.6g}"


def answer_text(answer: Mapping[str, Any]) -> str:
    """Return the text of an answer, with a row per workload and then the whole pool."""
    rows = answer["allocations"]
    resources = list(rows[0]["resources"]) if rows else []
    parts = [
        table(
            ("tenant", "workload", "tasks", *resources, "weighted share", "limited by"),
            [
                (
                    row["tenant"],
                    row["workload"]["name"],
                    number(row["tasks"]),
                    *(number(row["resources"][name]) for name in resources),
                    number(row["weighted_share"]),
                    row["limited_by"],
                )
                for row in rows
            ],
        )
    ]
    parts += [_placements_text(answer), _history_text(answer), _schedule_text(answer)]
    parts.append(_summary_text(answer["summary"]))
    return "\n\n".join(part for part in parts if part)


def _placements_text(answer: Mapping[str, Any]) -> str:
    rows = answer.get("placements") or []
    if not rows:
        return ""
    return table(
        ("server", "servers", "tenant", "workload", "tasks on each"),
        [
            (
                row["server"] if "server" in row else row["servers"]["first"],
                "1" if "server" in row else str(row["servers"]["count"]),
                row["tenant"],
                row["workload"]["name"],
                number(row["tasks"]),
            )
            for row in rows
        ],
    )


def _history_text(answer: Mapping[str, Any]) -> str:
    history = answer.get("history")
    if history is None:
        return ""
    resources = list(next(iter(history["tenants"].values()), {"used": {}})["used"])
    return table(
        ("tenant", *(f"{name} used, alone" for name in resources), "sharing degree"),
        [
            (
                name,
                *(f"{number(row['used'][r])}, {number(row['alone'][r])}" for r in resources),
                number(row["sharing_degree"]["min"]),
            )
            for name, row in history["tenants"].items()
        ],
    )


def _schedule_text(answer: Mapping[str, Any]) -> str:
    schedule = answer.get("schedule")
    if schedule is None:
        return ""
    return table(
        ("slot", "part of the period", "tasks"),
        [
            (
                str(position + 1),
                number(slot["fraction"]),
                ", ".join(
                    f"{row['tenant']}/{row['workload']} {row['tasks']}"
                    for row in slot["allocations"]
                ),
            )
            for position, slot in enumerate(schedule["slots"])
        ],
    )


def _summary_text(summary: Mapping[str, Any]) -> str:
    lines = [
        ("in use", _percent(summary["utilization"])),
        ("least weighted share", number(summary["min_weighted_share"])),
        ("mean weighted share", number(summary["mean_weighted_share"])),
        ("Jain's index", number(summary["jain_index"])),
    ]
    if summary["bound"] is not None:
        lines.append(("proven bound", f"{number(summary['bound'])}, gap {summary['gap']:.1e}"))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in lines)


def comparison_text(comparison: Mapping[str, Any]) -> str:
    """Return the text of a comparison, with a row per policy and a column per workload.

    Below are the reasons for which a policy has no answer.
    """
    columns = comparison["columns"]
    answered = [column for column in columns if column["error"] is None]
    parts = []
    if answered:
        workloads = [
            f"{row['tenant']}/{row['workload']['name']}" for row in answered[0]["allocations"]
        ]
        parts.append(
            table(
                ("policy", *workloads, "least share", "Jain", "least degree", "seconds", "in use"),
                [_column_row(column) for column in answered],
            )
        )
    parts += [
        f"{_policy_name(column['policy'])}: {column['error']['detail']} ({column['error']['code']})"
        for column in columns
        if column["error"] is not None
    ]
    return "\n\n".join(parts)


def _column_row(column: Mapping[str, Any]) -> tuple[str, ...]:
    degrees = [
        degree["min"]
        for degree in (column["sharing_degree"] or {}).values()
        if degree["min"] is not None
    ]
    return (
        _policy_name(column["policy"]),
        *(number(row["tasks"]) for row in column["allocations"]),
        number(column["min_weighted_share"]),
        number(column["jain_index"]),
        number(min(degrees, default=None)),
        f"{column['seconds']:.3f}",
        _percent(column["utilization"]),
    )


def verification_text(checks: Sequence[Mapping[str, Any]]) -> str:
    """Return a line per check."""
    return table(
        ("check", "holds", "condition"),
        [(item["name"], "yes" if item["holds"] else "NO", item["detail"]) for item in checks],
    )


def _policy_name(policy: Mapping[str, Any]) -> str:
    mode = policy.get("mode")
    return policy["name"] if mode is None else f"{policy['name']} ({mode})"


def _percent(utilization: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {100 * value:.1f} %" for name, value in utilization.items())


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell == NOTHING
    return True
