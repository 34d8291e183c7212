"""The questions that tenants ask of a backtest, on gains, sharing and costs."""

from collections.abc import Mapping, Sequence
from typing import Any

from allocator_service.backtests.answers import (
    HOUR,
    Answer,
    Table,
    label_of,
    number,
    part,
    scaled,
    span,
    spread,
)
from allocator_service.core.charts import (
    BarRow,
    Reference,
    bar_chart,
)

# In pictures: those who used most.
DRAWN_TENANTS = 12


def _most_used(done: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the places of the tenants that used most under any policy."""
    most: dict[int, float] = {}
    for each in done:
        for place, tenant in enumerate(each["tenants"]):
            most[place] = max(most.get(place, 0.0), tenant["dominant_use"] or 0.0)
    return sorted(sorted(most, key=lambda place: -most[place])[:DRAWN_TENANTS])


def gained(done: Sequence[Mapping[str, Any]]) -> Answer:
    places = _most_used(done)
    names = [done[0]["tenants"][place]["tenant"] for place in places]
    return Answer(
        "Who gains, who loses?",
        bar_chart(
            title="Mean wait of a tenant's tasks"
            + (f", of the {DRAWN_TENANTS} that used most" if len(places) == DRAWN_TENANTS else ""),
            unit="hours",
            series=[label_of(each["policy"]) for each in done],
            rows=[
                BarRow(
                    name,
                    [scaled(each["tenants"][place]["mean_waiting"], 1 / HOUR) for each in done],
                )
                for name, place in zip(names, places, strict=True)
            ],
        ),
        Table(
            ["tenant", *(label_of(each["policy"]) for each in done)],
            [
                [
                    name,
                    *(
                        f"{span(each['tenants'][place]['mean_waiting'])},"
                        f" {part(each['tenants'][place]['completion_ratio'])} done"
                        for each in done
                    ),
                ]
                for name, place in zip(names, places, strict=True)
            ],
        ),
    )


def fairness(done: Sequence[Mapping[str, Any]]) -> Answer:
    places = _most_used(done)
    return Answer(
        "Does sharing beat being alone?",
        bar_chart(
            title="Sharing degree: used, over what it would have used alone",
            unit="",
            series=[label_of(each["policy"]) for each in done],
            rows=[
                BarRow(
                    done[0]["tenants"][place]["tenant"],
                    [each["tenants"][place]["sharing_degree"] for each in done],
                )
                for place in places
            ],
            reference=Reference(1.0, "1: as much as alone"),
        ),
        Table(
            ["policy", "Jain", "least sharing degree", "tenants that envy", "longest starvation"],
            [
                [
                    label_of(each["policy"]),
                    spread(each["pool"]["jain_index"], number),
                    spread(each["pool"]["min_sharing_degree"], number),
                    spread(each["pool"]["tenants_envying"], number),
                    spread(each["pool"]["longest_starvation"], span),
                ]
                for each in done
            ],
        ),
    )


def money(result: Mapping[str, Any], done: Sequence[Mapping[str, Any]]) -> Answer:
    places = [
        place
        for place in _most_used(done)
        if any(each["tenants"][place]["charged"] is not None for each in done)
    ]
    currency = str(result["currency"])
    return Answer(
        "What does each tenant pay?",
        bar_chart(
            title=f"Charged for use, {currency}",
            unit=currency,
            series=[label_of(each["policy"]) for each in done],
            rows=[
                BarRow(
                    done[0]["tenants"][place]["tenant"],
                    [
                        None
                        if each["tenants"][place]["charged"] is None
                        else float(each["tenants"][place]["charged"])
                        for each in done
                    ],
                )
                for place in places
            ],
        ),
        Table(
            ["tenant", *(label_of(each["policy"]) for each in done)],
            [
                [
                    done[0]["tenants"][place]["tenant"],
                    *(
                        f"{each['tenants'][place]['charged'] or '–'}"
                        + (
                            f", saved {each['tenants'][place]['saved']}"
                            if each["tenants"][place]["saved"] is not None
                            else ""
                        )
                        for each in done
                    ),
                ]
                for place in places
            ],
        ),
    )
