"""Google's cluster as the live tests use it: Table 1's servers, and the users of the trace's start."""

import csv
import random
from collections import Counter
from decimal import Decimal

from tests.data import trace

# DRFH Table 1: number of servers, CPU, memory.
TABLE_1 = [
    (6732, "0.50", "0.50"), (3863, "0.50", "0.25"), (1001, "0.50", "0.75"), (795, "1.00", "1.00"),
    (126, "0.25", "0.25"), (52, "0.50", "0.12"), (5, "0.50", "0.03"), (5, "0.50", "0.97"),
    (3, "1.00", "0.50"), (1, "0.50", "0.06"),
]  # fmt: skip


def drawn_servers(count: int, seed: int) -> list[tuple[int, str, str]]:
    """`count` servers drawn from Table 1's mix, as (number, CPU, memory)."""
    kinds = [(cpu, memory) for number, cpu, memory in TABLE_1 for _ in range(number)]
    drawn = Counter(random.Random(seed).sample(kinds, count))
    return [(number, *kind) for kind, number in sorted(drawn.items())]


def users_at_the_start() -> list[dict[str, str]]:
    """The 245 users of the trace's first instant: tasks, and mean CPU and memory per task."""
    with trace("derived", "google2011_users_t0.csv").open() as file:
        return list(csv.DictReader(file))


def exact(text: str) -> str:
    """A number of the trace as a plain decimal string."""
    return f"{Decimal(text):f}"
