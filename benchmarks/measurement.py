"""Times of both sides of a comparison, and the table of results."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One comparison, with answers compared before anything was timed.

    Attributes:
        name: The measured operation.
        sizes: Sizes of the instance.
        our_value: Best time of ours, or its amount in `unit`.
        peer: The other side.
        peer_value: That of the other side.
        agreement: Largest relative difference between the two answers, or None if there is only one.
        goal: Required least ratio (peer / ours), or None for a record without a goal.
        notes: Certified gap, capacity violation, iterations, ...
        unit: Unit of both sides if they are no times, such as memory in GB.
    """

    name: str
    sizes: str
    our_value: float
    peer: str
    peer_value: float
    agreement: float | None
    goal: float | None
    notes: str = ""
    unit: str = "s"

    @property
    def ratio(self) -> float:
        """Time or amount of the peer divided by ours."""
        return self.peer_value / self.our_value

    @property
    def met(self) -> bool:
        """True if the goal is reached, or if there is none."""
        return self.goal is None or self.ratio >= self.goal

    def to_document(self) -> dict[str, Any]:
        """Return the row as a document for the JSON result."""
        document = asdict(self) | {"ratio": self.ratio, "met": self.met}
        if self.unit == "s":
            del document["unit"]
        return document


def best_seconds(
    prepare: Callable[[], Any], run: Callable[[Any], Any], *, repeat: int
) -> tuple[float, Any]:
    """Return the least time of ``run`` on a fresh ``prepare()`` each time, and the last result.

    Both sides compute on one thread. The processor's time of this process is therefore the wall time of
    an idle machine, and excludes other processes of a busy one. Caches of a problem's content are
    emptied before every run, so that a repetition costs as much as the first run.
    """
    best, result = float("inf"), None
    gc.collect()  # once, as in timeit, because before every run it would empty the processor's caches
    gc.disable()
    try:
        for _ in range(repeat):
            argument = prepare()
            _forget_contents()
            begin = time.process_time()
            result = run(argument)
            best = min(best, time.process_time() - begin)
    finally:
        gc.enable()
    return best, result


def _forget_contents() -> None:
    """Empty the bounded caches of `policies`, which hold results computed from a problem."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "policies":
            for value in vars(module).values():
                if (
                    hasattr(value, "cache_clear")
                    and value.cache_parameters()["maxsize"] is not None
                ):
                    value.cache_clear()


def print_table(rows: Sequence[Row]) -> None:
    """Print an aligned line per row."""
    head = ("what", "sizes", "ours", "peer", "its time", "ratio", "goal", "agree", "")
    lines = [head] + [
        (
            row.name,
            row.sizes,
            amount(row.our_value, row.unit),
            row.peer,
            amount(row.peer_value, row.unit),
            f"{row.ratio:.1f}x",
            "-" if row.goal is None else f"{row.goal:g}x {'met' if row.met else 'MISSED'}",
            "-" if row.agreement is None else f"{row.agreement:.0e}",
            row.notes,
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)))


def amount(number: float, unit: str) -> str:
    """Return a row's number with its unit."""
    return duration(number) if unit == "s" else f"{number:.2f} {unit}"


def duration(seconds: float) -> str:
    """Return a duration as text.

    It is in microseconds below a tenth of a millisecond, and in milliseconds below a second.
    """
    if seconds < 1e-4:
        return f"{seconds * 1e6:.2f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
