"""Table of the properties of each policy on the papers' examples.

``python -m benchmarks.property_table`` checks every property of every policy in every mode on every
example below, and replaces the generated part of docs/policies/properties.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from policies import PROPERTY_NAMES, PolicyError, Problem, policies_available, properties_of, solve

PAGE = Path(__file__).parents[1] / "docs" / "policies" / "properties.md"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
# Policies with rows of their own for some options.
OPTIONS: dict[str, list[dict[str, Any]]] = {"drfh": [{"share": "alone"}]}
# Enough for every search on these examples, so that no verdict depends on the machine.
SECONDS = 600.0


@dataclass(frozen=True)
class Example:
    """A small problem that distinguishes policies."""

    name: str
    capacity: list[list[float]]
    demand: list[list[float]]
    fields: dict[str, Any] = field(default_factory=dict)

    def problem(self) -> Problem:
        """Return the problem, with one workload per tenant."""
        return Problem.create(
            resources=("cpu", "memory")[: len(self.capacity[0])],
            capacity=self.capacity,
            demand=self.demand,
            tenants=[f"user {i}" for i in range(1, len(self.demand) + 1)],
            **self.fields,
        )


EXAMPLES = (
    Example("9, 18; users 1, 4 and 3, 1 (DRF §4.1)", [[9, 18]], [[1, 4], [3, 1]]),
    Example("30, 30; users 1, 3 and 1, 1 (DRF, Theorem 1)", [[30, 30]], [[1, 3], [1, 1]]),
    Example(
        "210, 210; users 3, 2 and 4, 1 (DRF, Theorem 2, ten times)", [[210, 210]], [[3, 2], [4, 1]]
    ),
    Example("100, 100; users 16, 1 and 1, 2 (DRF, Theorem 4)", [[100, 100]], [[16, 1], [1, 2]]),
    Example(
        "100, 100; users 4, 1; 1, 16; 16, 1 (DRF, Theorem 5)",
        [[100, 100]],
        [[4, 1], [1, 16], [16, 1]],
    ),
    Example("1, 1; users 1, 0; 1, 1/2; 0, 1 (zero demands)", [[1, 1]], [[1, 0], [1, 0.5], [0, 1]]),
    Example("one resource of 10; users 1 and 2", [[10]], [[1], [2]]),
    Example(
        "servers 1, 2 and 4, 3; users 1, 1 and 3, 2 (DRFH, Prop. 4)",
        [[1, 2], [4, 3]],
        [[1, 1], [3, 2]],
    ),
    Example(
        "servers 2, 12 of user 1 and 12, 2 of user 2; users 0.2, 1 and 1, 0.2 (DRFH, Fig. 1)",
        [[2, 12], [12, 2]],
        [[0.2, 1], [1, 0.2]],
        {"contributed_by": [0, 1]},
    ),
    Example(
        "servers 10, 10 of user 1 and 4, 4 of user 2, equal weights; users 3, 3 and 3, 3",
        [[10, 10], [4, 4]],
        [[3, 3], [3, 3]],
        {"contributed_by": [0, 1]},
    ),
    Example(
        "120, 120; users 1, 2 (50 tasks); 2, 1 (10); 1, 4 (10) (H-MRF, Example 2)",
        [[120, 120]],
        [[1, 2], [2, 1], [1, 4]],
        {"tasks": [50, 10, 10]},
    ),
)


def table() -> str:
    """Return the generated part of the page in Markdown."""
    head = ["policy", *(name.replace("_", " ") for name in PROPERTY_NAMES)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for info in policies_available():
        for options in ({}, *OPTIONS.get(info.name, ())):
            for mode in info.modes:
                name = f"`{info.name}`" + (f", {mode}" if len(info.modes) > 1 else "")
                name += "".join(f", `{option}: {value}`" for option, value in options.items())
                lines.append("| " + " | ".join([name, *_cells(info.name, mode, options)]) + " |")
    lines += ["", "Examples:", ""]
    lines += [f"{number}. {example.name}" for number, example in enumerate(EXAMPLES, start=1)]
    return "\n".join(lines)


def _cells(policy: str, mode: str, options: dict[str, Any]) -> list[str]:
    """Return one cell per property.

    It is ``no`` with the numbers of the examples, ``yes``, or a dash if no example decides it.
    """
    fails: dict[str, list[int]] = {name: [] for name in PROPERTY_NAMES}
    holds: dict[str, bool] = dict.fromkeys(PROPERTY_NAMES, False)
    for number, example in enumerate(EXAMPLES, start=1):
        try:
            answer = solve(example.problem(), policy, mode=mode, options=options)
        except PolicyError:
            continue
        verdicts = properties_of(answer, seconds=SECONDS).verdicts
        for name in PROPERTY_NAMES:
            if verdicts[name].holds is False:
                fails[name].append(number)
            holds[name] |= bool(verdicts[name].holds)
    return [
        f"no ({', '.join(map(str, fails[name]))})" if fails[name] else "yes" if holds[name] else "–"
        for name in PROPERTY_NAMES
    ]


def page_with(generated: str) -> str:
    """Return the current page with another generated part."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{generated}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with(table()))
