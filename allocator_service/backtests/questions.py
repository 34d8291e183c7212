"""The questions that a backtest answers, each with a picture and the table behind it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from allocator_service.allocation.policies import policy_title
from allocator_service.backtests.answers import (
    HOUR,
    PER_CENT,
    Answer,
    Table,
    label_of,
    mean,
    part,
    scaled,
    span,
    spread,
)
from allocator_service.backtests.tenant_questions import fairness, gained, money
from allocator_service.core.charts import (
    BarRow,
    StepLine,
    bar_chart,
    steps_chart,
)


def answers(result: Mapping[str, Any]) -> list[Answer]:
    """Return a chart and a table for each question, with the policies that could run the backtest."""
    done = [each for each in result["columns"] if each["pool"] is not None]
    if not done:
        return []
    found = [
        _utilisation(result, done),
        _over_time(result, done),
        _waiting(done),
        _completion(done),
        _by_size(result, done),
        gained(done),
        fairness(done),
    ]
    if any(each["money"] for each in done):
        found.append(money(result, done))
    return found


def _utilisation(result: Mapping[str, Any], done: Sequence[Mapping[str, Any]]) -> Answer:
    resources = result["resources"]
    spreads = [[each["pool"]["utilisation"][name] for name in resources] for each in done]
    return Answer(
        "How much of the servers is in use?",
        bar_chart(
            title="In use, of all servers",
            unit="per cent",
            series=resources,
            rows=[
                BarRow(
                    label_of(each["policy"]),
                    [None if one is None else PER_CENT * one["mean"] for one in row],
                )
                for each, row in zip(done, spreads, strict=True)
            ],
        ),
        Table(
            ["policy", *resources],
            [
                [label_of(each["policy"]), *(spread(one, part) for one in row)]
                for each, row in zip(done, spreads, strict=True)
            ],
        ),
    )


def _over_time(result: Mapping[str, Any], done: Sequence[Mapping[str, Any]]) -> Answer:
    resource = result["resources"][0]
    lines = []
    rows = []
    for each in done:
        edges, curves = each["curves"]["edges"], each["curves"]["utilisation"]
        values = curves.get(resource, [])
        begin = edges[0] if edges else 0.0
        origin = _instant(result["input"].get("from"))
        spans = [
            (
                _after(origin, since - begin),
                _after(origin, until - begin),
                PER_CENT * value,
            )
            for since, until, value in zip(edges, edges[1:], values, strict=False)
        ]
        lines.append(StepLine(label_of(each["policy"]), spans))
        tenths = [values[place * len(values) // 10 :][:1] for place in range(10)] if values else []
        rows.append([label_of(each["policy"]), *(part(tenth[0]) for tenth in tenths)])
    header = ["policy", *(f"{10 * place}\N{NO-BREAK SPACE}%" for place in range(10))]
    return Answer(
        f"When is {resource} in use?",
        steps_chart(title=f"{resource} in use over time", unit="per cent", lines=lines),
        Table(header, rows),
    )


def _waiting(done: Sequence[Mapping[str, Any]]) -> Answer:
    kinds = (("mean", "mean_waiting"), ("median", "median_waiting"), ("95 %", "p95_waiting"))
    return _hours("How long do tasks wait?", "Hours from submission to the beginning", kinds, done)


def _completion(done: Sequence[Mapping[str, Any]]) -> Answer:
    kinds = (
        ("mean", "mean_completion"), ("median", "median_completion"), ("95 %", "p95_completion"),
    )  # fmt: skip
    return _hours("How long do jobs take?", "Hours from submission to the last end", kinds, done)


def _hours(
    question: str,
    title: str,
    kinds: Sequence[tuple[str, str]],
    done: Sequence[Mapping[str, Any]],
) -> Answer:
    rows = []
    for each in done:
        values = [mean(each["pool"][name]) for _, name in kinds]
        rows.append(
            BarRow(
                label_of(each["policy"]),
                [None if value is None else value / HOUR for value in values],
            )
        )
    return Answer(
        question,
        bar_chart(title=title, unit="hours", series=[kind for kind, _ in kinds], rows=rows),
        Table(
            ["policy", *(kind for kind, _ in kinds)],
            [
                [
                    label_of(each["policy"]),
                    *(spread(each["pool"][name], span) for _, name in kinds),
                ]
                for each in done
            ],
        ),
    )


def _by_size(result: Mapping[str, Any], done: Sequence[Mapping[str, Any]]) -> Answer:
    sizes = [
        f"{size['least']}–{size['most']}" if size["most"] else f"{size['least']} and more"
        for size in done[0]["by_job_size"]
    ]
    present = [
        place
        for place in range(len(sizes))
        if any(each["by_job_size"][place]["jobs"] for each in done)
    ]
    baseline = policy_title(result["baseline"])
    return Answer(
        f"Jobs of which size are faster than under “{baseline}”?",
        bar_chart(
            title=f"Mean completion time, by a job's tasks ({baseline} first)",
            unit="hours",
            series=[label_of(each["policy"]) for each in done],
            rows=[
                BarRow(
                    f"{sizes[place]} tasks",
                    [
                        scaled(each["by_job_size"][place]["mean_completion"], 1 / HOUR)
                        for each in done
                    ],
                )
                for place in present
            ],
        ),
        Table(
            ["policy", *(f"{sizes[place]} tasks" for place in present)],
            [
                [
                    label_of(each["policy"]),
                    *(
                        spread(each["by_job_size"][place]["reduction"], part) + " less"
                        if each["by_job_size"][place]["reduction"]
                        else "–"
                        for place in present
                    ),
                ]
                for each in done
            ],
        ),
    )


def _after(origin: datetime, seconds: float) -> datetime:
    """Return the instant some seconds after another one, at most the last one of the calendar."""
    try:
        return origin + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _instant(text: str | None) -> datetime:
    return datetime.fromtimestamp(0, UTC) if text is None else datetime.fromisoformat(text)
