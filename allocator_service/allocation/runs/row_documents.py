"""Documents of members and workloads that a process keeps from one decision to the next."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

Row = tuple[Any, ...]
Document = dict[str, Any]

# Of all pools. A decision of as many members has as many documents in memory anyway.
MOST_ROWS = 250_000


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
