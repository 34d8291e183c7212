"""Results as rows, as charts, and as one page to send on."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.template.loader import render_to_string

from allocator_service.backtests.answers import Table, label_of, mean, number, part, span
from allocator_service.backtests.models import Backtest
from allocator_service.backtests.questions import answers
from allocator_service.core.charts import Chart, column

COLUMNS = (
    "policy", "options", "tenant", "submitted", "completed", "completion_ratio", "mean_waiting",
    "mean_completion", "dominant_use", "dominant_alone", "sharing_degree", "longest_starvation",
    "envy", "charged", "paid", "saved", "error",
)  # fmt: skip


def rows_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row per policy and tenant, or one with the error for a policy that could not run."""
    rows = []
    for each in result["columns"]:
        policy = {"policy": each["policy"]["name"], "options": each["policy"]["options"]}
        if each["tenants"] is None:
            rows.append({**policy, "error": (each["error"] or {}).get("detail")})
        else:
            rows += [{**policy, **tenant} for tenant in each["tenants"]]
    return rows


def pictures(result: Mapping[str, Any]) -> Chart:
    """Return all charts in one."""
    return column("Backtest", [answer.chart for answer in answers(result)])


def report_page(backtest: Backtest) -> str:
    """Return a report as one file, which loads nothing else."""
    return render_to_string("backtests/report.html", shown(backtest))


def shown(backtest: Backtest) -> dict[str, Any]:
    """Return the context of pages that show a succeeded backtest."""
    result = backtest.result or {}
    return {
        "backtest": backtest,
        "result": result,
        "period": _period(result["input"]),
        "problem_lines": list(input_problem_lines(result["input"])),
        "definitions": sorted(result["definitions"].items()),
        "answers": answers(result),
        "summary": summary(result),
        "failed": [
            (label_of(each["policy"]), each["error"]["detail"])
            for each in result["columns"]
            if each["error"]
        ],
    }


def _period(found: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """Return the instants between which the input lies, None for an empty one."""
    if not found.get("from") or not found.get("to"):
        return None
    return datetime.fromisoformat(found["from"]), datetime.fromisoformat(found["to"])


def summary(result: Mapping[str, Any]) -> Table:
    """Return a table of the policies side by side, with the most important measures."""
    money = any(each["money"] for each in result["columns"])
    header = [
        "policy", *(f"{name} in use" for name in result["resources"]), "mean wait", "95 % waited under",
        "tasks done", "Jain", "least sharing degree",
        *([f"charged, {result['currency']}"] if money else []),
    ]  # fmt: skip
    rows = []
    for each in result["columns"]:
        pool = each["pool"]
        if pool is None:
            rows.append([label_of(each["policy"]), *["–"] * (len(header) - 1)])
            continue
        rows.append(
            [
                label_of(each["policy"]),
                *(part(mean(pool["utilisation"][name])) for name in result["resources"]),
                span(mean(pool["mean_waiting"])),
                span(mean(pool["p95_waiting"])),
                part(mean(pool["completion_ratio"])),
                number(mean(pool["jain_index"])),
                number(mean(pool["min_sharing_degree"])),
                *([(each["money"] or {}).get("charged") or "–"] if money else []),
            ]
        )
    return Table(header, rows)


def input_problem_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on the parts of the input that did not count."""
    for reason, count in found["left_out"].items():
        yield f"{count} left out: {reason}."
    if found["bad_lines"]:
        first = found["first_bad_lines"][0]
        yield (
            f"{found['bad_lines']} lines could not be read; the first is line {first['line']}:"
            f" {first['reason']}."
        )
    if found["fits_nowhere"]["tasks"]:
        yield f"{found['fits_nowhere']['tasks']} tasks are larger than every server: they never begin."
