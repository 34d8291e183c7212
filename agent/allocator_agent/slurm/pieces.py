"""Pieces of decided jobs of several nodes, by node and by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from allocator_agent.model import Job, Node, all_licences
from allocator_agent.slurm.tres import is_licence, units_of

Kind = tuple[int, tuple[tuple[str, int], ...]]  # the number of pieces, and the limits of one


class Pieces:
    """Pieces of a workload by node that are decided and that no running or waiting job has."""

    def __init__(self, item: Mapping[str, Any], kinds: Sequence[Kind]) -> None:
        self._decided = {each["name"]: list(each["pieces"]) for each in item["servers"]}
        self._left = {name: list(pieces) for name, pieces in self._decided.items()}
        self._shared = {each["name"]: each["shared"] for each in item["servers"]}
        # Licences are on no node.
        self._counts = [0 if is_licences(limits) else count for count, limits in kinds]
        self._cpus = [dict(limits).get("cpu", 0) for _, limits in kinds]

    def take(self, node: str) -> None:
        """Count a piece on a node, of the larger kind that is left there."""
        left = self._left.get(node, [])
        for kind in self._by_size():
            if kind < len(left) and left[kind] > 0:
                left[kind] -= 1
                return

    def has(self, node: str) -> bool:
        """Return true if a piece on a node is left."""
        return any(self._left.get(node, ()))

    def choose(self, names: Sequence[str], per_server: int) -> dict[str, list[int]] | None:
        """Take the pieces of one task on nodes of these names, or none if they do not fit."""
        taken: dict[str, list[int]] = {}
        for kind in self._by_size():
            missing = self._counts[kind]
            for name in names:
                left = self._left.get(name, [0] * len(self._counts))[kind]
                here = taken.get(name, [0] * len(self._counts))
                room = per_server - sum(here) if per_server else left
                if (count := min(missing, left, room)) > 0:
                    here[kind] += count
                    taken[name] = here
                    missing -= count
            if missing:
                return None
        for name, pieces in taken.items():
            self._left[name] = [a - b for a, b in zip(self._left[name], pieces)]
        return taken

    def cpus(self, pieces: Sequence[int]) -> int:
        """Return the CPUs of pieces."""
        return sum(count * cpus for count, cpus in zip(pieces, self._cpus))

    def has_alone(self, node: str, pieces: Sequence[int]) -> bool:
        """Return true if the decision puts nothing else on the node."""
        return not self._shared[node] and self._decided[node] == list(pieces)

    def _by_size(self) -> list[int]:
        return sorted(range(len(self._counts)), key=lambda kind: -self._cpus[kind])


def zones_of(nodes: Sequence[Node], label: str | None) -> Iterator[list[str]]:
    """Yield the names of nodes for the pieces of one task, all or those of each value of a label."""
    if not label:
        yield [node.name for node in nodes]
        return
    values = dict.fromkeys(node.labels[label] for node in nodes if label in node.labels)
    for value in values:
        yield [node.name for node in nodes if node.labels.get(label) == value]


def decided_kinds(item: Mapping[str, Any]) -> list[Kind]:
    return [(each["count"], tuple(sorted(each["limits"].items()))) for each in item["pieces"]]


def kinds_of(parts: Sequence[Job], item: Mapping[str, Any]) -> list[Kind]:
    """Return the kinds of jobs that start together in the units of a rendering."""
    names = item["pieces"][0]["limits"]
    counts: Counter[tuple[tuple[str, int], ...]] = Counter()
    for job in parts:
        counts[tuple(sorted((name, units_of(job.demand, name)) for name in names))] += job.tasks
    if licences := all_licences(parts):
        counts[tuple(sorted((name, units_of(licences, name)) for name in names))] += 1
    return [(count, limits) for limits, count in counts.items()]


def is_licences(limits: Sequence[tuple[str, int]]) -> bool:
    """Return true for a piece that is licences alone."""
    return not any(most for name, most in limits if not is_licence(name))
