"""A decision's input under other policies, side by side, for the admin."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from time import monotonic
from typing import Any

from allocator_service.allocation.policies import policy_is_divisible
from allocator_service.allocation.what_if.evaluations import SECONDS, compare
from allocator_service.backtests.answers import Answer, Table, label_of, number, part
from allocator_service.core.charts import BarRow, bar_chart
from allocator_service.core.display import number_text
from allocator_service.core.errors import Unavailable

# Beside the one that decided; those that remember or take turns answer other questions.
BESIDE = ("static", "drf", "drfh", "asset", "ceei", "mrfs", "single-resource", "slots")
# As many policies as there are colours; the table has them all.
DRAWN_TENANTS, DRAWN_POLICIES = 6, 6
LISTED_TENANTS = 50
_PER_CENT = 100.0
_LEAST_SECONDS = 0.2


def side_by_side(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context of `backtests/answers.html` for a decision's input, without storing anything.

    A policy for which the time does not suffice is listed with those that could not run. Raises as
    `compare`: too large, or busy before anything is computed.
    """
    decided = document["policy"]
    asked = [decided, *(name for name in BESIDE if name != decided["name"])]
    columns = _columns({**document, "include": ["properties"]}, asked)
    for column in columns:
        # The mode that was requested is empty for a policy that has only one.
        column["is_divisible"] = decided.get("mode") == "indivisible" and policy_is_divisible(
            column["policy"]["name"]
        )
    done = [each for each in columns if each["error"] is None]
    resources = [each["name"] for each in document["resources"]]
    answers = [_who(done), _used(done, resources), _least(done)] if done else []
    return {
        "summary": _summary(done, resources),
        "answers": answers,
        "failed": [
            (_label(each), each["error"]["detail"]) for each in columns if each["error"] is not None
        ],
    }


def _columns(
    document: Mapping[str, Any], policies: Sequence[str | Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return a column of each policy. A policy that takes too long does not prevent other answers."""
    columns: list[dict[str, Any]] = []
    deadline = monotonic() + SECONDS
    for policy in policies:
        remaining = deadline - monotonic()
        try:
            if remaining < _LEAST_SECONDS:
                raise _no_time_left()
            columns += compare(document, [policy], seconds=remaining)["columns"]
        except Unavailable as error:
            # Busy before anything is computed: the page can be asked for again.
            if error.code != "evaluation.timeout" and not columns:
                raise
            named = policy if isinstance(policy, Mapping) else {"name": policy, "options": {}}
            columns.append({"policy": named, "error": {"detail": error.detail}})
    return columns


def _no_time_left() -> Unavailable:
    return Unavailable(
        f"Earlier policies used up the time limit of this page, {SECONDS:g} s.",
        code="evaluation.timeout",
    )


def _label(column: Mapping[str, Any]) -> str:
    label = label_of({"options": {}, **column["policy"]})
    return f"{label} (divisible shares; not whole tasks)" if column["is_divisible"] else label


def _summary(done: Sequence[Mapping[str, Any]], resources: Sequence[str]) -> Table:
    header = [
        "policy", *(f"{name} in use" for name in resources), "least weighted share", "Jain",
        "envy-free", "nothing left over",
    ]  # fmt: skip
    rows = [
        [
            _label(each),
            *(part(each["utilization"][name]) for name in resources),
            number(each["min_weighted_share"]),
            number(each["jain_index"]),
            _holds(each, "envy_free"),
            _holds(each, "pareto_optimal"),
        ]
        for each in done
    ]
    return Table(header, rows)


def _holds(column: Mapping[str, Any], name: str) -> str:
    holds = column["properties"][name]["holds"]
    return "not known" if holds is None else "yes" if holds else "no"


def _who(done: Sequence[Mapping[str, Any]]) -> Answer:
    tasks = [_tasks_of(each["allocations"]) for each in done]
    names = _most_different(tasks)
    header = ["tenant", *map(_label, done)]
    rows = [
        [name, *(number_text(Decimal(str(each.get(name, 0.0)))) for each in tasks)]
        for name in names
    ]
    return Answer(
        f"Who would run how many tasks? {_of(len(rows), {name for each in tasks for name in each})}",
        bar_chart(
            title="Tasks of all of a tenant's workloads",
            unit="tasks",
            series=[_label(each) for each in done[:DRAWN_POLICIES]],
            rows=[
                BarRow(name, [each.get(name, 0.0) for each in tasks[:DRAWN_POLICIES]])
                for name in names[:DRAWN_TENANTS]
            ],
        ),
        Table(header, rows),
    )


def _of(listed: int, names: Iterable[str]) -> str:
    known = len(set(names))
    if listed == known:
        return ""
    return f"The {listed} of {known} tenants for whom policies differ most."


def _tasks_of(allocations: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in allocations:
        found[row["tenant"]] = found.get(row["tenant"], 0.0) + row["tasks"]
    return found


def _most_different(tasks: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the tenants whose tasks differ most between the policies."""
    names = {name for each in tasks for name in each}

    def spread(name: str) -> float:
        counts = [each.get(name, 0.0) for each in tasks]
        # Rounded, so that names decide among spreads that differ by noise.
        return round(max(counts) - min(counts), 9)

    ordered = sorted(names, key=lambda name: (-spread(name), name))
    return ordered[:LISTED_TENANTS]


def _used(done: Sequence[Mapping[str, Any]], resources: Sequence[str]) -> Answer:
    rows = [(_label(each), [each["utilization"][name] for name in resources]) for each in done]
    return Answer(
        "How much of the servers would be in use?",
        bar_chart(
            title="In use, of all servers",
            unit="per cent",
            series=resources,
            rows=[BarRow(label, [_PER_CENT * value for value in row]) for label, row in rows],
        ),
        Table(["policy", *resources], [[label, *map(part, row)] for label, row in rows]),
    )


def _least(done: Sequence[Mapping[str, Any]]) -> Answer:
    rows = [
        (_label(each), each["min_weighted_share"], each["mean_weighted_share"]) for each in done
    ]
    series = ["least weighted share", "mean weighted share"]
    return Answer(
        "How well off is the tenant with the least?",
        bar_chart(
            title="Dominant share by weight",
            unit="of the pool",
            series=series,
            rows=[BarRow(label, values) for label, *values in rows],
        ),
        Table(["policy", *series], [[label, *map(number, values)] for label, *values in rows]),
    )
