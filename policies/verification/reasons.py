"""Reasons for which workloads get no more, by the names that answers state."""

from __future__ import annotations

NO_ELIGIBLE_SERVER, RESOURCE_ABSENT = "no_eligible_server", "resource_absent"
OUT_OF_RANGE, TASK_LIMIT, LEVEL = "out_of_range", "task_limit", "level"
NO_SERVER_LARGE_ENOUGH, GANG = "no_server_large_enough", "gang"


def by_resource(name: str) -> str:
    """Return the reason of a workload that a full resource stops."""
    return f"resource:{name}"
