"""Fair order of the work of backtests: owners take turns, cell by cell.

Messages in the queue are in the order of their arrival. A worker that followed them would finish all
cells of one owner's large backtests before another owner's small one. A message is therefore a
permission to do one unit of work, and this module chooses which.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from uuid import UUID

from django.db import connection

from allocator_service.backtests.jobs import backtest_advance, cell_compute

_CANDIDATES = 20
# The owner is the tenant, else the key or the person. An input to read, or results to put together, come
# before the cells of the same owner. Cells that run are not candidates: those of a worker that died are
# published again, see `cells_due`.
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
    """Do the unit of work whose owner's turn it is.

    The unit of the message is done if there is no other, such as the cell of a worker that died.
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
