"""Servers that schedulers hold for jobs, and jobs that end for others, as agents report them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allocator_service.enforcement.models import Agent


@dataclass(frozen=True)
class ServersHeld:
    """Servers that a scheduler holds for jobs which start together, until all of them are free.

    `beside` are the numbers of the jobs that still run there, by tenant.
    """

    jobs: Sequence[str]
    servers: Sequence[str]
    beside: Mapping[str, int]

    @property
    def others(self) -> int:
        """The number of all jobs that still run there."""
        return sum(self.beside.values())


@dataclass(frozen=True)
class JobsEnding:
    """Jobs above the decision that end together, or have just ended, by the report of an agent.

    `heir` is the tenant whose jobs wait for what they hold, None if no job does.
    """

    agent: str
    name: str
    jobs: Sequence[str]
    tasks: int
    ends_at: datetime
    heir: str | None
    ended: bool


def holds_of(reported: Mapping[str, Any]) -> list[ServersHeld]:
    """Return what an agent reports to hold for a tenant."""
    return [
        ServersHeld(
            each["jobs"],
            each["servers"],
            {row["tenant"]: row["jobs"] for row in each["beside"]},
        )
        for each in reported.get("holds", ())
    ]


def ending_of(agent: Agent, reported: Mapping[str, Any]) -> list[JobsEnding]:
    """Return the jobs of a tenant that an agent reports to end."""
    return [
        JobsEnding(
            agent.name,
            each["name"],
            each["jobs"],
            each["tasks"],
            datetime.fromisoformat(each["ends_at"]),
            each["heir"],
            each["ended"],
        )
        for each in reported.get("ending", ())
    ]
