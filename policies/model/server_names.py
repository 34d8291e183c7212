"""Names of single servers: those of a row are numbered."""

from __future__ import annotations

import numpy as np

from policies.model.problem import Problem


def server_names(problem: Problem) -> list[str]:
    """Names of the servers that offer something, row by row; those of a row are numbered."""
    names = []
    for row in np.flatnonzero((problem.row_capacity > 0).any(axis=1)).tolist():
        count = int(problem.server_count[row])
        names += [server_name(problem, row, offset) for offset in range(count)]
    return names


def server_name(problem: Problem, row: int, offset: int) -> str:
    """A row of one server has its name; the servers of a larger one are numbered from 1."""
    name, count = problem.server_names[row], int(problem.server_count[row])
    if count == 1:
        return name
    return f"{name}-{offset + 1:0{max(4, len(str(count)))}d}"
