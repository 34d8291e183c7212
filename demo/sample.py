"""The demo's pool of the servers of Google's cluster, which twelve groups share.

Number and size of the servers are from Table 1 of the DRFH paper (TPDS 2015). CPU and memory are
relative to the largest server. Owners, workloads and demands are fictitious. A demand is per task, in
the same units.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

RESOURCES = ("cpu", "memory")
POOL: dict[str, Any] = {
    "slug": "google-mix",
    "name": "Twelve groups on the servers of Google's cluster",
    "resources": [{"name": name, "unit": "largest server"} for name in RESOURCES],
    "policy": {"name": "drfh", "mode": "divisible", "options": {}},
    "weights": "contribution",
}


@dataclass(frozen=True)
class Group:
    """A tenant and its workload.

    `tasks` is the number of tasks, or None for any number.
    """

    slug: str
    name: str
    workload: str
    # Texts, because the interface takes amounts as exact decimals.
    cpu: str
    memory: str
    tasks: int | None = None
    selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerClass:
    """Identical servers, contributed by their owners in the proportions of `owners`."""

    number: int
    cpu: str
    memory: str
    owners: Mapping[str, int]


GROUPS: tuple[Group, ...] = (
    Group("astronomy", "Astronomy", "image-stacking", "0.02", "0.06"),
    Group("climate", "Climate", "ocean-model", "0.10", "0.05"),
    Group("genomics", "Genomics", "assembly", "0.05", "0.20"),
    Group("vision", "Computer vision", "training", "0.80", "0.70", selector={"size": "large"}),
    Group("physics", "Particle physics", "event-filter", "0.04", "0.04"),
    Group("robotics", "Robotics", "simulation", "0.06", "0.01"),
    Group("materials", "Materials", "relaxation", "0.12", "0.06"),
    Group("chemistry", "Chemistry", "docking", "0.25", "0.05", tasks=400),
    Group("linguistics", "Linguistics", "corpus", "0.04", "0.02", tasks=2_500),
    Group("archive", "Web archive", "index", "0.01", "0.08"),
    Group("economics", "Economics", "agent-model", "0.08", "0.02"),
    Group("teaching", "Teaching", "notebooks", "0.01", "0.02", tasks=5_000),
)

_EVERYBODY = {
    "astronomy": 17,
    "climate": 14,
    "genomics": 13,
    "vision": 6,
    "physics": 12,
    "robotics": 8,
    "materials": 8,
    "chemistry": 6,
    "linguistics": 6,
    "archive": 4,
    "economics": 4,
    "teaching": 2,
}
_COMPUTING = {"climate": 5, "robotics": 4, "materials": 3, "chemistry": 3, "economics": 2}
_REMEMBERING = {"genomics": 5, "astronomy": 4, "archive": 3}
_LARGE = {"vision": 5, "physics": 3, "climate": 2}

SERVERS: tuple[ServerClass, ...] = (
    ServerClass(6732, "0.50", "0.50", _EVERYBODY),
    ServerClass(3863, "0.50", "0.25", _COMPUTING),
    ServerClass(1001, "0.50", "0.75", _REMEMBERING),
    ServerClass(795, "1.00", "1.00", _LARGE),
    ServerClass(126, "0.25", "0.25", {"teaching": 1}),
    ServerClass(52, "0.50", "0.12", {"linguistics": 1, "teaching": 1}),
    ServerClass(5, "0.50", "0.03", {"robotics": 1}),
    ServerClass(5, "0.50", "0.97", {"archive": 1}),
    ServerClass(3, "1.00", "0.50", {"vision": 1}),
    ServerClass(1, "0.50", "0.06", {"economics": 1}),
)


def server_requests() -> list[list[dict[str, Any]]]:
    """Return the bodies of the bulk requests that add the servers, one per class."""
    return [
        [
            {
                "name": f"{owner}-{each.cpu}-{each.memory}",
                "contributed_by": owner,
                "capacity": {"cpu": each.cpu, "memory": each.memory},
                # Named by what the selector of one group asks for.
                "labels": {"size": "large" if each.cpu == "1.00" else "small"},
                "count": count,
            }
            for owner, count in _divide(each).items()
        ]
        for each in SERVERS
    ]


def workload_request() -> list[dict[str, Any]]:
    """Return the body of the bulk request that adds the workloads."""
    return [
        {
            "tenant": group.slug,
            "name": group.workload,
            "demand": {"cpu": group.cpu, "memory": group.memory},
            "tasks": group.tasks,
            "server_selector": dict(group.selector),
        }
        for group in GROUPS
    ]


@cache
def totals() -> dict[str, float]:
    """Return the pool's total of each resource."""
    return {
        name: sum(each.number * float(getattr(each, name)) for each in SERVERS)
        for name in RESOURCES
    }


def brought_percent(slug: str) -> tuple[float, ...]:
    """Return the percentage of each resource of the pool that one group contributed."""
    return tuple(
        100
        * sum(_divide(each).get(slug, 0) * float(getattr(each, name)) for each in SERVERS)
        / totals()[name]
        for name in RESOURCES
    )


def _divide(servers: ServerClass) -> dict[str, int]:
    """Divide the servers of a class among their owners without a remainder."""
    parts = list(servers.owners.values())
    # Bounds of running sums, so that rounding leaves no server without an owner.
    bounds = [servers.number * sum(parts[:end]) // sum(parts) for end in range(len(parts) + 1)]
    counts = [after - before for before, after in itertools.pairwise(bounds)]
    return dict(zip(servers.owners, counts, strict=True))
