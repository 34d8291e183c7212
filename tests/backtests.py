"""Backtests worked through here as workers would, and traces to ask them with."""

from typing import Any

from allocator_service.backtests.jobs import (
    BACKTEST_JOBS,
    CELL_JOBS,
    backtest_advance,
    cell_compute,
)
from allocator_service.core.clock import utc_now
from allocator_service.core.jobs import jobs_due

SERVERS = [{"capacity": {"cpu": 4, "memory": 16}, "count": 2}]
CSV = """tenant,submit,duration,demand.cpu,demand.memory,tasks,job
physics,0,3600,2,4,4,night
chemistry,3600,1800,1,8,4,mix
physics,600,60,1,1,2,
"""
SACCT = """JobID|User|Account|Submit|Start|End|AllocTRES|State
1|ann|physics|2026-07-01T00:00:00|2026-07-01T00:10:00|2026-07-01T02:10:00|cpu=4,mem=8G,node=1|COMPLETED
2|bea|chemistry|2026-07-01T00:05:00|2026-07-01T02:10:00|2026-07-01T03:10:00|cpu=4,mem=16G,node=1|COMPLETED
3|ann|physics|2026-07-01T00:06:00|2026-07-01T02:20:00|2026-07-01T02:50:00|cpu=2,mem=4G,node=1|COMPLETED
4|ann|physics|2026-07-01T00:07:00|Unknown|Unknown|cpu=2,mem=4G,node=1|CANCELLED
"""


def asked(content: str = CSV, form: str = "csv", **more: Any) -> dict[str, Any]:
    """What a body asks for: a trace on two servers, under two policies."""
    return {
        "trace": {"format": form, "content": content},
        "servers": SERVERS,
        "policies": ["static", "drfh"],
        **more,
    }


def work(most: int = 1_000) -> int:
    """Do what is due until nothing is; returns how many jobs that were."""
    done = 0
    while done < most:
        backtests = jobs_due(BACKTEST_JOBS, now=utc_now(), again=False)
        cells = jobs_due(CELL_JOBS, now=utc_now(), again=False)
        for backtest in backtests:
            backtest_advance(backtest_id=backtest, clock=utc_now)
        for cell in cells:
            cell_compute(cell_id=cell, clock=utc_now)
        if not backtests and not cells:
            break
        done += len(backtests) + len(cells)
    return done
