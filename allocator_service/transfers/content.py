"""The content of a pool in a few numbers, equal before and after its move."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from allocator_service.core.display import counted

Read = Callable[[str], tuple[Any, ...] | None]

_CONTENT = """
SELECT (SELECT generation FROM pool WHERE id = %(pool)s),
       (SELECT count(*) FROM pool_membership WHERE pool_id = %(pool)s),
       (SELECT count(*) FROM run WHERE pool_id = %(pool)s AND status = 'succeeded'),
       (SELECT count(*) FROM billing_closing WHERE pool_id = %(pool)s),
       (SELECT count(*) FROM ledger_seal WHERE pool_id = %(pool)s),
       (SELECT COALESCE(max(sequence), 0) FROM ledger_seal WHERE pool_id = %(pool)s),
       (SELECT COALESCE(max(number), 0) FROM ledger_block WHERE pool_id = %(pool)s),
       (SELECT encode(digest, 'hex') FROM ledger_block WHERE pool_id = %(pool)s
        ORDER BY number DESC LIMIT 1)
"""


@dataclass(frozen=True)
class PoolContent:
    """Counts of a pool's rows, and the last digest of its chain, which covers ledger and statements."""

    pool: str
    generation: int
    members: int
    decisions: int
    closings: int
    entries: int
    sequence: int
    block: int
    digest: str | None

    @property
    def document(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def lines(self) -> list[str]:
        counts = (
            counted(self.members, "member"),
            counted(self.decisions, "decision"),
            counted(self.closings, "closed month"),
        )
        entries = counted(self.entries, "entry", "entries")
        return [
            f"pool     {self.pool}, generation {self.generation}: {', '.join(counts)}",
            f"ledger   {entries}, the last one is number {self.sequence}",
            f"chain    block {self.block}, digest {self.digest or 'none'}",
        ]


def content_of(slug: str, read: Read) -> PoolContent:
    """Return the content of the pool whose key the reader fills in."""
    row = read(_CONTENT)
    assert row is not None  # noqa: S101 # an aggregate always has a row
    return PoolContent(slug, *row)


def migrations_applied() -> dict[str, str]:
    """Return the last migration of each app, by which two installations know that they have one form."""
    ours = {
        each.label for each in apps.get_app_configs() if each.name.startswith("allocator_service.")
    }
    applied = sorted(MigrationRecorder(connection).applied_migrations())
    return {app: name for app, name in applied if app in ours}
