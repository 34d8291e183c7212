"""Parts of pools that a process keeps from one decision to the next.

A worker decides the same pools again and again, and most of a pool does not change in between.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from allocator_service.allocation.placements import DecidedPlacements

Row = tuple[Any, ...]
Document = dict[str, Any]

# Of all pools. A decision of as many members has as many documents in memory anyway.
MOST_ROWS = 250_000
MOST_DECISIONS = 4


class RowDocuments:
    """Documents by the rows that they are made of.

    A row is found by all its values, so that a changed one is always built again. Documents are shared
    by the inputs of several decisions, and must not be changed.
    """

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self._by_key: dict[Hashable, dict[Row, Document]] = {}

    def of(
        self, key: Hashable, rows: Sequence[Row], build: Callable[[Row], Document]
    ) -> list[Document]:
        """Return the documents of rows, built only where the last call with the key had another row.

        `key` has everything else that `build` depends on. Documents of other rows are dropped.
        """
        known = self._by_key.pop(key, {})
        documents = [known.get(row) or build(row) for row in rows]
        # Last, because the key that was used least recently is dropped first.
        self._by_key[key] = dict(zip(rows, documents, strict=True))
        while sum(map(len, self._by_key.values())) > self._most_rows:
            del self._by_key[next(iter(self._by_key))]
        return documents


@dataclass(frozen=True)
class DecidedTasks:
    """Placements of a decision, and the workloads of its input in their order."""

    placements: DecidedPlacements
    workload_ids: Sequence[UUID]


class Decisions:
    """Placements of the last decisions that this process has published.

    A stored decision is never changed, so that its run alone identifies it. One that was rolled back is
    the decision of no run.
    """

    def __init__(self, most: int = MOST_DECISIONS) -> None:
        self._most = most
        self._by_pool: dict[int, tuple[UUID, DecidedTasks]] = {}

    def keep(self, pool: int, run: UUID, decided: DecidedTasks) -> None:
        """Keep the tasks of a run, in place of those of the pool's run before."""
        self._by_pool.pop(pool, None)
        self._by_pool[pool] = run, decided
        if len(self._by_pool) > self._most:
            del self._by_pool[next(iter(self._by_pool))]

    def of(self, pool: int, run: UUID) -> DecidedTasks | None:
        """Return the tasks of a run, or None if they are not kept."""
        kept, decided = self._by_pool.get(pool, (None, None))
        return decided if kept == run else None


@dataclass(frozen=True)
class Known:
    """All that a process keeps."""

    rows: RowDocuments = field(default_factory=RowDocuments)
    decisions: Decisions = field(default_factory=Decisions)
