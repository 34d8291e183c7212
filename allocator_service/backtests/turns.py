"""Fair scheduling of backtest cells among owners.

The queue holds messages in order of arrival. In that order, all cells of one owner's large backtest
would finish before another owner's small one. A message therefore only permits one unit of work, and
this module chooses the unit.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from uuid import UUID

from django.db import connection

from allocator_service.backtests.jobs import backtest_advance, cell_compute

_CANDIDATES = 20
# The owner is the tenant, else the key or the person. Reading an input and combining results come before
# the owner's cells. Running cells are not candidates: the relay sends those of a dead worker again.
_UNITS = """
WITH open AS MATERIALIZED (
    SELECT id, status, served_at,
           COALESCE('tenant ' || tenant_id, 'key ' || key_id::text, 'person ' || started_by) AS owner
    FROM backtest WHERE status IN ('queued', 'running')),
unit AS (
    SELECT TRUE AS advances, open.id, open.owner, 0 AS position
    FROM open WHERE status = 'queued' OR NOT EXISTS (
        SELECT FROM backtest_cell c WHERE c.backtest_id = open.id AND c.status IN ('queued', 'running'))
    UNION ALL
    SELECT FALSE, c.id, open.owner, c.position
    FROM open JOIN backtest_cell c ON c.backtest_id = open.id AND c.status = 'queued'
    WHERE open.status = 'running'),
turn AS (
    SELECT owner, max(served_at) AS served, (
        SELECT count(*) FROM backtest_cell c JOIN open o ON o.id = c.backtest_id
        WHERE o.owner = open.owner AND c.status = 'running') AS running
    FROM open GROUP BY owner)
SELECT unit.advances, unit.id FROM unit JOIN turn USING (owner)
ORDER BY turn.running, turn.served NULLS FIRST, unit.advances DESC, unit.position, unit.id
LIMIT %s
"""


def turn_take(*, advances: bool, unit: UUID, clock: Callable[[], datetime]) -> None:
    """Compute one unit of work of the owner whose turn it is.

    Falls back to the message's own unit, such as the cell of a dead worker, if no candidate is left.
    """
    for is_advance, candidate in (*_units_in_turn(), (advances, unit)):
        if is_advance:
            done = backtest_advance(backtest_id=candidate, clock=clock)
        else:
            done = cell_compute(cell_id=candidate, clock=clock)
        if done:
            return


def _units_in_turn() -> Iterator[tuple[bool, UUID]]:
    with connection.cursor() as cursor:
        cursor.execute(_UNITS, [_CANDIDATES])
        yield from cursor.fetchall()
