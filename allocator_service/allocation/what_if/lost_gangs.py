"""Tasks of several pieces that end if servers drain or retire, because one of their pieces does."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from allocator_service.allocation.runs.snapshots import PoolState
from allocator_service.core.display import counted


@dataclass(frozen=True)
class LostGang:
    """Tasks of a workload that run with a piece on servers that drain or retire.

    A decision does not record which pieces are of one task, so that the number of tasks is from `least`
    to `tasks`. `pieces` are those of `tasks`, and `pieces_here` those on the servers. All count by the
    present pieces of a task, even if the decision in force is older.
    """

    tenant: str
    workload: str
    least: int
    tasks: int
    pieces: int
    pieces_here: int
    servers: int

    @property
    def text(self) -> str:
        """Sentence for people.

        Such as "2 tasks of mpi end: 2 of their 8 pieces are on this server."
        """
        return self._sentence(self.workload)

    @property
    def text_with_tenant(self) -> str:
        """Sentence that names the tenant, unless the workload has its name."""
        same = self.tenant == self.workload
        return self._sentence(self.workload if same else f"{self.tenant}'s {self.workload}")

    def _sentence(self, name: str) -> str:
        tasks = counted(self.tasks, "task")
        if self.least < self.tasks:
            tasks = f"{self.least:,} to {tasks}"
        verb = "is" if self.pieces_here == 1 else "are"
        where = "this server" if self.servers == 1 else "these servers"
        end, whose = ("ends", "its") if self.tasks == 1 else ("end", "their")
        return (
            f"{tasks} of {name} {end}: {self.pieces_here:,} of {whose} {counted(self.pieces, 'piece')}"
            f" {verb} on {where}."
        )


def removed_servers(changes: Mapping[str, Any]) -> list[str]:
    """Return the ids of the servers that the changes of a simulation drain or retire."""
    servers = changes.get("servers", {})
    return [str(id_) for action in ("drain", "retire") for id_ in servers.get(action, [])]


def has_gangs(settings: Mapping[str, Any]) -> bool:
    """Return True if a task of a workload has several pieces."""
    return any(_pieces(row) > 1 for row in settings["workloads"])


def lost_gangs(state: PoolState, servers: Iterable[str]) -> list[LostGang]:
    """Return the gangs of the decision in force that lose a piece with some servers of a pool.

    `servers` are ids. Those that are not in the pool are passed over.
    """
    leaving = set(servers)
    # Positions of the servers in the rows of the document.
    gone = {
        row["name"]: [at for at, id_ in enumerate(group.ids) if id_ in leaving]
        for row, group in zip(state.settings["servers"], state.groups, strict=True)
    }
    gangs = {
        (row["tenant"], row["name"]): row for row in state.settings["workloads"] if _pieces(row) > 1
    }
    running: Counter[tuple[str, str]] = Counter()
    here: defaultdict[tuple[str, str], Counter[tuple[int, str, int]]] = defaultdict(Counter)
    for entry in state.settings.get("running", []):
        key = entry["tenant"], entry["workload"]
        first, kind = entry.get("offset", 0), entry.get("kind", 0)
        # The workload may have had more kinds of pieces when it was decided.
        if key not in gangs or kind >= len(gangs[key]["pieces"]):
            continue
        running[key] += entry["tasks"] * entry["servers"]
        for at in gone.get(entry["server"], ()):
            if first <= at < first + entry["servers"]:
                here[key][kind, entry["server"], at] += entry["tasks"]
    return [
        _lost(*key, gangs[key], running[key], pieces, sum(map(len, gone.values())))
        for key, pieces in here.items()
    ]


def _pieces(workload: Mapping[str, Any]) -> int:
    return sum(each["count"] for each in workload.get("pieces") or ())


def _lost(
    tenant: str,
    workload: str,
    gang: Mapping[str, Any],
    running: int,
    pieces: Mapping[tuple[int, str, int], int],
    servers: int,
) -> LostGang:
    """Return the bounds of the number of tasks with pieces on servers.

    `pieces` are by kind, row and position of the server.
    """
    counts = [each["count"] for each in gang["pieces"]]
    of_kind: Counter[int] = Counter()
    on_server: Counter[tuple[str, int]] = Counter()
    for (kind, row, at), number in pieces.items():
        of_kind[kind] += number
        on_server[row, at] += number
    # One task has no more pieces of a kind than stated, and no more on one server.
    least = max(-(-number // counts[kind]) for kind, number in of_kind.items())
    most_on_server = gang.get("per_server") or sum(counts)
    least = max(least, *(-(-number // most_on_server) for number in on_server.values()))
    total = sum(of_kind.values())
    # Rounded up, because a task may have had other pieces when it was decided.
    tasks = min(-(-running // sum(counts)), total)
    return LostGang(tenant, workload, min(least, tasks), tasks, tasks * sum(counts), total, servers)
