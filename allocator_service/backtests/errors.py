"""Stored errors of failed backtests, and rejections that several of their steps share."""

from dataclasses import asdict
from typing import Any

from allocator_service.allocation.policies import domain_error
from allocator_service.core.errors import DomainError, Missing, TooLarge, Unacceptable
from allocator_service.core.selecting import missing
from policies import PolicyError
from policies.simulation.traces import TraceLineError

MAX_TRACE_BYTES = 256 * 2**20
MAX_TASKS = 2_000_000
MAX_TENANTS = 2_000
MAX_GROUPS = 10_000
# Groups and members times the instants at which the terms of any change.
MAX_TERMS = 5_000_000
MAX_CELLS = 60
MAX_SERVERS = 100_000
MAX_SERVER_ROWS = 10_000
MAX_SEED = 2**53
# Kinds of tasks times rows of alike servers: what is kept of each pair.
MAX_PAIRS = 40_000_000
# Of all cells together: tasks times policies times seeds.
MAX_EVENTS = 50_000_000


def stored(error: DomainError | PolicyError) -> dict[str, Any]:
    """Return `code`, `detail` and `errors` as in a problem document."""
    found = error if isinstance(error, DomainError) else of_policy(error)
    return {
        "code": found.code,
        "detail": found.detail,
        "errors": [asdict(item) for item in found.errors],
    }


def of_policy(error: PolicyError) -> DomainError:
    """Convert the error of a simulation, which names a line of a trace by its number."""
    if isinstance(error, TraceLineError):
        return Unacceptable(error.detail, code=error.code, pointer="/trace/content")
    return domain_error(error)


def absent() -> Missing:
    return missing("backtest.not_found")


def refuse_many_servers(count: int) -> None:
    """Raise `TooLarge` for more servers than are simulated."""
    if count > MAX_SERVERS:
        raise too_large(f"There are {count} servers; at most {MAX_SERVERS} can be simulated.")


def too_large(what: str) -> TooLarge:
    return TooLarge(what, code="backtest.too_large")
