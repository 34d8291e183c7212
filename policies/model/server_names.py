"""Names of single servers, numbered within a row."""

from __future__ import annotations

import numpy as np

from policies.model.problem import Problem


def server_names(problem: Problem) -> list[str]:
    """Return the names of the servers that offer something, row by row.

    Those of a row are numbered.
    """
    names = []
    for row in np.flatnonzero((problem.row_capacity > 0).any(axis=1)).tolist():
        count = int(problem.server_count[row])
        names += [server_name(problem, row, offset) for offset in range(count)]
    return names


def server_name(problem: Problem, row: int, offset: int) -> str:
    """Return the name of a server.

    The server of a row of one has the row's name. Those of a larger row are numbered from 1.
    """
    name, count = problem.server_names[row], int(problem.server_count[row])
    if count == 1:
        return name
    return f"{name}-{offset + 1:0{max(4, len(str(count)))}d}"


class NumberedServers:
    """The servers of all rows by their names, and by their numbers in ``Problem.first_server``."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._order = np.argsort(problem.first_server)
        self._first = problem.first_server[self._order]
        self._row_of = {name: row for row, name in enumerate(problem.server_names)}

    def position(self, name: str) -> tuple[int, int]:
        """Return the row of a server, and how many of the row's servers are before it.

        Raises:
            KeyError: no row has a server of that name.
        """
        row = self._row_of.get(name)
        if row is not None and self._problem.server_count[row] == 1:
            return row, 0
        stem, _, number = name.rpartition("-")
        row = self._row_of[stem]
        if not number.isdecimal() or not 1 <= int(number) <= self._problem.server_count[row]:
            raise KeyError(name)
        return row, int(number) - 1

    def row(self, number: int) -> int:
        """Return the row of the server of that number."""
        return int(self._order[np.searchsorted(self._first, number, side="right") - 1])

    def name(self, number: int) -> str:
        """Return the name of the server of that number."""
        row = self.row(number)
        return server_name(self._problem, row, number - int(self._problem.first_server[row]))
