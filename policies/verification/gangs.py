"""Tasks of several pieces for the verifier.

Source: docs/policies/gangs.md. The module shares no code with policies.model.gangs, policies.filling and
policies.proofs, so that an error there cannot hide itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.gangs import Gang
from policies.model.tolerance import DISCRETE_TOLERANCE
from policies.verification.places import Places
from policies.verification.reasons import GANG
from policies.verification.servers import NOWHERE, Servers
from policies.verification.stated import Stated


def tasks_at_once(gang: Gang | None, running: float) -> int:
    """Return the number of tasks of a workload that start at once."""
    return gang.at_least if gang is not None and running == 0 else 1


@dataclass(frozen=True, eq=False)
class GangRule:
    """Placement of tasks of several pieces by a rule for one piece.

    Attributes:
        stated: the problem; servers: where there is room.
        rule: the server of the next piece of a kind, or ``NOWHERE``.
        rows: (rows,) row of the problem of each row of the servers.
    """

    stated: Stated
    servers: Servers
    rule: Callable[[int], int]
    rows: IntArray

    def launch(self, job: int, at_once: int) -> list[tuple[int, int]]:
        """Take servers for all pieces of tasks, or none. Return kind and server of each piece."""
        label = self.stated.problem.gangs[job].together
        if at_once == 1 or not label or (self._cluster == self._cluster[:1]).all():
            return self._launch_tasks(job, at_once, None)
        open_ = self.stated.pieces.values[label][self.rows] >= 0
        first, _ = self._larger_first(job)[0]
        while True:
            server = self._first_server(first, open_)
            if server == NOWHERE:
                return []
            same = self._cluster == self._cluster[self.servers.row_of[server]]
            launched = self._launch_tasks(job, at_once, same)
            if launched:
                return launched
            open_ &= ~same

    @cached_property
    def _cluster(self) -> IntArray:
        """Number (rows,) of each row's cluster."""
        labels = self.stated.problem.server_labels
        names = [labels[row].get("cluster", "") for row in self.rows.tolist()]
        return np.unique(names, return_inverse=True)[1]

    def _first_server(self, kind: int, open_: BoolArray) -> int:
        """Return the server of the rule for one piece on some rows."""
        self.servers.may = open_
        server = self.rule(kind)
        self.servers.may = None
        return server

    def _launch_tasks(
        self, job: int, at_once: int, within: BoolArray | None
    ) -> list[tuple[int, int]]:
        """Take servers, of some rows or all, for so many tasks, or none."""
        launched = list[tuple[int, int]]()
        for _ in range(at_once):
            placed = self._launch_task(job, within)
            if not placed:
                self._give_back(launched)
                return []
            launched += placed
        return launched

    def _launch_task(self, job: int, within: BoolArray | None) -> list[tuple[int, int]]:
        gang = self.stated.problem.gangs[job]
        kinds = self._larger_first(job)
        if not gang.together:
            return self._placed(kinds, gang, within)
        value = self.stated.pieces.values[gang.together][self.rows]
        open_ = value >= 0
        if within is not None:
            open_ &= within
        while True:  # a rule that draws at random draws once more when no value is left
            server = self._first_server(kinds[0][0], open_)
            if server == NOWHERE:
                return []
            same = value == value[self.servers.row_of[server]]
            placed = self._placed(kinds, gang, same)
            if placed:
                return placed
            open_ &= ~same

    def _larger_first(self, job: int) -> list[tuple[int, int]]:
        """Return kind and number of pieces, the kind with the larger share of the pool first."""
        kinds = self.stated.pieces.of(job)
        count = self.stated.pieces.count
        size = [float((self.servers.demand[q] * self.servers.unit).max(initial=0.0)) for q in kinds]
        if len(kinds) > 1 and size[1] > size[0] * (1 + DISCRETE_TOLERANCE):
            kinds = kinds[::-1]
        return [(q, int(count[q])) for q in kinds]

    def _placed(
        self, kinds: Sequence[tuple[int, int]], gang: Gang, may: BoolArray | None
    ) -> list[tuple[int, int]]:
        """Take servers, from some rows or all, for all pieces of one task, or none."""
        servers, placed, here = self.servers, list[tuple[int, int]](), dict[int, int]()
        servers.may = may
        for piece in [q for q, count in kinds for _ in range(count)]:
            server = self.rule(piece)
            if server == NOWHERE:
                break
            servers.take(server, piece)
            placed.append((piece, server))
            here[server] = here.get(server, 0) + 1
            if here[server] == gang.per_server:
                # Hidden from the rule instead of full, because other tasks may still use it.
                servers.hidden.add(server)
        servers.hidden.clear()
        servers.may = None
        if len(placed) == sum(count for _, count in kinds):
            return placed
        self._give_back(placed)
        return []

    def _give_back(self, placed: Sequence[tuple[int, int]]) -> None:
        for piece, server in placed:
            self.servers.give_back(server, piece)


def rows_by_value(stated: Stated) -> list[BoolArray]:
    """Return the rows (rows,) with each value of each label that keeps tasks together."""
    found = []
    for value in stated.pieces.values.values():
        here = value[stated.rows.row]
        found += [here == number for number in np.unique(here[here >= 0])]
    return found


def gang_stop(
    stated: Stated, job: int, left: FloatArray, places: Places, allowed: BoolArray
) -> str | None:
    """Return ``gang`` if not all pieces of one task have room, judged kind by kind, else None.

    Args:
        left: (K, m) of one server of each place; allowed: (q, K).
    """
    gang = stated.problem.gangs[job]
    for q, count in zip(stated.pieces.of(job), gang.count.tolist(), strict=True):
        fit = places_for(stated.on_servers.demand[q], left, gang.per_server)
        fit = np.where(allowed[q], fit, 0.0) * places.servers
        if gang.together:
            value = stated.pieces.values[gang.together][places.row]
            by_value = np.bincount(value[value >= 0], fit[value >= 0])
            most = by_value.max(initial=0.0)
        else:
            most = fit.sum()
        if most < count:
            return GANG
    return None


def places_for(demand: FloatArray, left: FloatArray, per_server: int) -> FloatArray:
    """Return the number of pieces (K,) of one task that fit on one server with so much left."""
    fit = np.full(len(left), np.inf)
    for r in np.flatnonzero(demand > 0).tolist():
        fit = np.minimum(fit, left[:, r] // demand[r])
    places: FloatArray = np.clip(fit, 0.0, float(per_server) if per_server else 2.0**31)
    return places


def most_tasks(
    pieces: FloatArray, servers: FloatArray, count: Sequence[int], per_server: int
) -> int:
    """Return the most tasks of which pieces on servers are all pieces.

    Args:
        pieces: (c, K) of each kind on one server of each place; servers: (K,) of each place.
        count: pieces of one task of each kind; per_server: most of one task on one server, 0 for any.
    """
    rows = zip(pieces @ servers, count, strict=True)
    low, high = 0, int(min(total // each for total, each in rows))
    while low < high:
        middle = (low + high + 1) // 2
        cap = per_server * middle if per_server else np.inf
        # By Gale's theorem pieces make tasks if those of each set of kinds do.
        make = all(
            np.minimum(pieces[list(some)].sum(axis=0), cap) @ servers
            >= middle * sum(count[c] for c in some)
            for size in range(1, len(count) + 1)
            for some in combinations(range(len(count)), size)
        )
        low, high = (middle, high) if make else (low, middle - 1)
    return low
