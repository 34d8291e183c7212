"""Tasks of several pieces in a decision, with the servers of their pieces."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from allocator_service.allocation.placements import DecidedPlacements
from allocator_service.allocation.present_servers import PresentServers
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import server_groups
from policies import Choice, Problem

Vector = list[Decimal]


@dataclass(frozen=True)
class PieceServer:
    """A server with pieces of a gang.

    `pieces` are those of each kind. The server is `shared` if it has tasks of others, too.
    """

    name: str
    pieces: Sequence[int]
    shared: bool


@dataclass(frozen=True)
class DecidedGang:
    """A workload that runs at least one task of several pieces.

    `kinds` has the number of pieces in a task and the demand of one piece, for each kind. `servers` is
    None if a server of the pieces drains or has changed.
    """

    tenant: str
    workload: str
    tasks: int
    kinds: Sequence[tuple[int, Vector]]
    per_server: int | None
    together: str
    selector: Mapping[str, Sequence[str]]
    servers: Sequence[PieceServer] | None


def decided_gangs(
    problem: Problem,
    choice: Choice,
    workloads: Sequence[Mapping[str, Any]],
    tasks: Sequence[float],
    *,
    kinds: Sequence[Sequence[Vector]],
    names: Mapping[int, Sequence[str]],
    placements: Iterable[tuple[int, int, int, float]],
) -> list[DecidedGang]:
    """Return the gangs of a decision that places their pieces.

    `workloads` are those of its input, with the demands of their `kinds`. `placements` are pieces of a
    workload and a kind on each server of a class, whose servers have `names`.
    """
    positions = [
        position
        for position, gang in problem.placed_by(choice).gangs.items()
        if tasks[position] and sum(gang.count.tolist()) > 1
    ]
    if not positions:
        return []
    pieces: dict[int, dict[int, list[int]]] = {position: {} for position in positions}
    users: dict[int, set[int]] = defaultdict(set)
    for workload, kind, server_class, count in placements:
        users[server_class].add(workload)
        if workload in pieces:
            of_class = pieces[workload].setdefault(server_class, [0] * len(kinds[workload]))
            of_class[kind] += round(count)
    found = []
    for position in positions:
        row = workloads[position]
        servers = [
            PieceServer(name, placed, len(users[server_class]) > 1)
            for server_class, placed in sorted(pieces[position].items())
            for name in names.get(server_class, ())
        ]
        # A scheduler needs all servers of a task: some of them are of no use.
        is_named = names.keys() >= pieces[position].keys()
        found.append(
            DecidedGang(
                row["tenant"],
                row["name"],
                int(tasks[position]),
                [
                    (each.get("count", 1), kind)
                    for each, kind in zip(row["pieces"], kinds[position], strict=True)
                ],
                row.get("per_server"),
                row.get("together") or "",
                {
                    label: [values] if isinstance(values, str) else values
                    for label, values in row["server_selector"].items()
                },
                servers if is_named else None,
            )
        )
    return found


def server_names(
    pool: Pool, workloads: Sequence[Mapping[str, Any]], placements: DecidedPlacements
) -> dict[int, Sequence[str]]:
    """Return the servers of the ranges that have pieces of gangs, by position of the range.

    A range is absent if a server of it drains or is no longer as it was.
    """
    gangs = {position for position, row in enumerate(workloads) if row.get("pieces")}
    used = {number for workload, _, number, _ in placements if workload in gangs}
    if not used:
        return {}
    groups = server_groups(pool)
    present = PresentServers(groups, placements.ranges)
    found: dict[int, Sequence[str]] = {}
    for number in sorted(used):
        each = placements.ranges[number]
        if each.first_server is None or each.last_server is None:
            continue
        group, offset, here = present.find(each.traits, each.first_server, each.last_server)
        if here == each.count:
            found[number] = groups[group].names[offset : offset + here]
    return found
