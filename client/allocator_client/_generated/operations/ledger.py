"""What was used, in one gapless order that consumers follow by cursor, and its chain.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Literal

from allocator_client._generated.documents.ledger import (
    BlockDocument,
    CorrectionRequest,
    EntryDocument,
    RecordedDocument,
    UsageImportRequest,
    UsageRequest,
)
from allocator_client._generated.documents.pools_and_members import ImportDocument
from allocator_client.answers import Answer, Download, Rows
from allocator_client.transport import Transport, path_part


class Ledger(Transport):
    """What was used, in one gapless order that consumers follow by cursor, and its chain."""

    def ledger_blocks_list(
        self, *, pool: str | None = None, after: int | None = None, limit: int = 1000
    ) -> Rows[BlockDocument]:
        """List the blocks of a pool's chain by number, each with its digest and its decisions.

        Only operator and billing keys may read them. An auditor recomputes each digest from the
        exported entries, the block's decisions and the digest of the block before; blocks of `format` 1
        cannot be recomputed from exports. Keep the `number` of the last block and pass it as `after` to
        continue. A slug that no pool has gives an empty list.

        Parameters
        ----------
        pool
            Slug of the pool whose chain it is, retired or not.
        """
        return self._rows(
            "/api/v1/ledger-blocks/", {"pool": pool, "after": after, "limit": limit}, "after"
        )

    def ledger_entries_list(
        self,
        *,
        after: str | None = None,
        limit: int = 1000,
        pool: str | None = None,
        tenant: str | None = None,
        kind: Literal["usage", "alone", "correction"] | None = None,
    ) -> Rows[EntryDocument]:
        """List the sealed ledger entries in their final order.

        Keep `next_cursor` and pass it as `after` next time: a client that follows it gets each entry
        exactly once, and the cursor does not expire. An entry appears within seconds of being written.
        Entries of kind `alone` are what would have been used without the pool: never bill them. A
        tenant key sees its own entries only, without `sequence` and `digest`, and other tenants in
        `server_owner` under pseudonyms.

        Parameters
        ----------
        pool
            Entries of the pool with this slug only.
        tenant
            Entries of the tenant with this slug only.
        kind
            Entries of this kind only: `usage` was used, `alone` would have been used without
            the pool, a `correction` is the difference to an entry that was wrong.
        """
        return self._rows(
            "/api/v1/ledger-entries/",
            {"after": after, "limit": limit, "pool": pool, "tenant": tenant, "kind": kind},
            "after",
        )

    def ledger_entries_corrections_create(
        self, entry: str, body: CorrectionRequest, *, idempotency_key: str | None = None
    ) -> Answer[EntryDocument]:
        """Correct an entry's quantity with a new entry that holds the difference.

        Only operators may. `quantity` is the whole quantity that the entry should have had, whatever
        was corrected before; the entry itself stays as it is, and the new one keeps the `reason`. A
        quantity that is right already is refused with 422 `correction.nothing`, and a correction
        cannot be corrected itself (409 `entry.correction`). An archived entry cannot be corrected until
        its month is restored (409 `entry.archived`). If the entry's month is closed, the difference
        becomes an adjustment on the statement of the open month, at the prices of its own time.

        Parameters
        ----------
        entry
            The id of an entry of the ledger.
        """
        return self._post(
            f"/api/v1/ledger-entries/{path_part(entry)}/corrections/", body, idempotency_key
        )

    def ledger_entries_export_export(
        self,
        *,
        format: Literal["csv", "ndjson", "parquet"],
        after: str | None = None,
        pool: str | None = None,
        tenant: str | None = None,
        kind: Literal["usage", "alone", "correction"] | None = None,
    ) -> Download:
        """Stream all sealed ledger entries from one snapshot, as CSV, NDJSON or Parquet.

        Use it for a first load or an archive, then continue with `GET /ledger-entries/` after the
        cursor in `X-Next-Cursor`. A tenant key gets its own entries only, with the same columns as in
        the feed. At most four exports run at a time: a further one is answered 503 `export.busy` with
        `Retry-After`.

        Parameters
        ----------
        pool
            Entries of the pool with this slug only.
        tenant
            Entries of the tenant with this slug only.
        kind
            Entries of this kind only: `usage` was used, `alone` would have been used without
            the pool, a `correction` is the difference to an entry that was wrong.
        """
        return self._file(
            "/api/v1/ledger-entries/export/",
            {"after": after, "pool": pool, "tenant": tenant, "kind": kind, "format": format},
        )

    def pools_imports_usage_create(
        self, pool: str, body: UsageImportRequest, *, idempotency_key: str | None = None
    ) -> Answer[ImportDocument]:
        """Import what jobs used into the ledger, from `sacct`, finished Kubernetes pods, CSV or a
        trace in the Standard Workload Format.

        Operators and the pool's agents, for pools with `metering` `reported`; other pools answer
        409 `usage.metering`. Each row is posted once, under the id that its source gave it: files
        that overlap add only what is new, and a row that was posted before with other content is
        refused (`usage.conflict`). `dry_run` writes nothing. A refused row keeps all others from
        being written (422 `import.refused`) unless `skip_refused` is set.
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/imports/usage/", body, idempotency_key)

    def pools_usage_record(
        self,
        pool: str,
        body: UsageRequest | list[UsageRequest],
        *,
        non_members: Literal["refuse", "accept"] | None = None,
        idempotency_key: str | None = None,
    ) -> Answer[RecordedDocument]:
        """Record usage that was measured outside the service, in a pool whose `metering` is `reported`.

        Send one event or an array of up to 10,000, late and in any order: all of them are recorded or
        none. `source` and `id` identify an event in its pool permanently. Repeat a request whose answer
        was lost: events that were recorded before count as `duplicates`, but the same identity with
        different content is refused with 409 `usage.conflict`. A pool that meters itself answers 409
        `usage.metering`. A tenant key reports for its own tenant only, and its `source` is stored as
        `tenant:<slug>/<source>`.

        Parameters
        ----------
        non_members
            Whether usage of tenants that were never admitted to the pool is taken.
        """
        return self._post(
            f"/api/v1/pools/{path_part(pool)}/usage/",
            body,
            idempotency_key,
            query={"non_members": non_members},
        )
