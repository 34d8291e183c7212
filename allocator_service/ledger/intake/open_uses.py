"""Open uses, which become entries when they change or when an hour ends."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from allocator_service.core.copying import copy_rows
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.models import SOURCE_LENGTH, OpenUse

SOURCE = "decisions"
_CLOSE = "DELETE FROM ledger_open_use WHERE pool_id = %s AND tenant_id = ANY(%s)"


class MeteredUse(NamedTuple):
    """All that an entry states of what a decision gives, except when.

    `cluster` is that of the servers, None where the decision has none.
    """

    workload: UUID | None
    owner: int | None
    resource: str
    unit: str
    kind: str
    quantity: Decimal
    cluster: str | None = None

    @property
    def source(self) -> str:
        """The source of the entry, which names the cluster if it is short enough."""
        named = SOURCE if self.cluster is None else f"{SOURCE}/{self.cluster}"
        return named if len(named) <= SOURCE_LENGTH else SOURCE


class _Open(NamedTuple):
    run: UUID
    start: datetime
    uses: tuple[MeteredUse, ...]


class OpenUses:
    """The open uses of a pool, for a transaction that holds the pool's meter.

    The uses of a tenant open and close together. Its entries of one interval therefore have
    consecutive numbers in their order, as if the interval had been cut nowhere.
    """

    def __init__(self, pool_id: int) -> None:
        self._pool = pool_id
        self._closed: list[tuple[int, _Open, datetime]] = []

    @cached_property
    def _stored(self) -> dict[int, _Open]:
        rows: Iterable[tuple[Any, ...]] = OpenUse.objects.filter(pool=self._pool).values_list(
            "tenant_id", "run_id", "start", "workloads", "owners", "resources", "units", "kinds",
            "quantities", "clusters",
        )  # fmt: skip
        return {
            # Rows of pools without clusters, and of the release before, have no array of clusters.
            tenant: _Open(run, start, tuple(map(MeteredUse, *columns, clusters or repeat(None))))
            for tenant, run, start, *columns, clusters in rows
        }

    @cached_property
    def _open(self) -> dict[int, _Open]:
        return dict(self._stored)

    @property
    def were_stored(self) -> bool:
        """A flag that is set if any use was open when the transaction began."""
        # Not from `_stored`, which would read all of them.
        return OpenUse.objects.filter(pool=self._pool).exists()

    @property
    def entry_count(self) -> int:
        """The entries to be appended."""
        return sum(len(closed.uses) for _, closed, _ in self._closed)

    def change(
        self, uses: Mapping[int, Sequence[MeteredUse]], *, run_id: UUID, at: datetime
    ) -> None:
        """Close the uses that differ from those given from an instant on, and open the others."""
        for tenant in [each for each in self._open if each not in uses]:
            self._close(tenant, at)
        for tenant, of_tenant in uses.items():
            present, now = self._open.get(tenant), tuple(of_tenant)
            # Unchanged, it stays open under the run that began it, whichever run gives it now.
            if present is not None and present.uses == now:
                continue
            if present is not None:
                self._close(tenant, at)
            self._open[tenant] = _Open(run_id, at, now)

    def close(self, at: datetime) -> None:
        """Close all uses."""
        for tenant in list(self._open):
            self._close(tenant, at)

    def _close(self, tenant: int, at: datetime) -> None:
        self._closed.append((tenant, self._open.pop(tenant), at))

    def store(self, *, now: datetime) -> int:
        """Append the entries of what was closed, store what is open, and return the count of entries."""
        if "_open" not in self.__dict__:  # nothing was read, hence nothing changed
            return 0
        rows = [
            self._entry(tenant, closed, use, end, now)
            for tenant, closed, end in self._closed
            for use in closed.uses
        ]
        entries_append(rows)
        # By identity: a use that was closed and opened again with equal values is a new row.
        gone = [key for key, row in self._stored.items() if self._open.get(key) is not row]
        if gone:
            with connection.cursor() as cursor:
                # One array: Django would write a parameter for each of 100,000 tenants.
                cursor.execute(_CLOSE, [self._pool, gone])
        new = [(key, row) for key, row in self._open.items() if self._stored.get(key) is not row]
        copy_rows(
            OpenUse,
            ["pool_id", "tenant_id", "run_id", "start", "workloads", "owners", "resources", "units",
             "kinds", "quantities", "clusters"],
            (
                (self._pool, tenant, row.run, row.start, *columns, clusters if any(clusters) else None)
                for tenant, row in new
                for *columns, clusters in [[*map(list, zip(*row.uses, strict=True))]]
            ),
        )  # fmt: skip
        return len(rows)

    def _entry(
        self, tenant: int, closed: _Open, use: MeteredUse, end: datetime, now: datetime
    ) -> dict[str, Any]:
        return {
            "pool_id": self._pool,
            "tenant_id": tenant,
            "server_owner_id": use.owner,
            "workload_id": use.workload,
            "resource": use.resource,
            "unit": use.unit,
            "quantity": use.quantity,
            "start": closed.start,
            "end": end,
            "kind": use.kind,
            "corrects": None,
            "reason": "",
            "source": use.source,
            "event_id": None,
            "run_id": closed.run,
            "recorded_at": now,
        }
