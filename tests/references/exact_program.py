"""A linear program in fractions: the simplex method in two phases, by Bland's rule, which ends."""

from fractions import Fraction


def maximise(objective, rows, right):
    """The greatest value of objective · x with rows · x = right, right and x at least 0; None: none."""
    n, m = len(objective), len(rows)
    table = [
        [*map(Fraction, row), *(Fraction(int(i == k)) for k in range(m)), Fraction(b)]
        for i, (row, b) in enumerate(zip(rows, right, strict=True))
    ]
    basis = [n + i for i in range(m)]
    first = [Fraction(0)] * n + [Fraction(-1)] * m
    if _climb(table, basis, first, n + m) != 0:
        return None
    for i in range(m):  # artificial variables that stay at 0 leave, or their row says nothing
        if basis[i] >= n:
            column = next((c for c in range(n) if table[i][c] != 0), None)
            if column is not None:
                _pivot(table, basis, i, column)
    return _climb(table, basis, [*map(Fraction, objective), *[Fraction(0)] * m], n)


def _climb(table, basis, objective, columns):
    """The optimum over the first columns; the program is bounded."""
    while True:
        price = [objective[b] for b in basis]
        for column in range(columns):
            if column in basis:
                continue
            gain = objective[column] - sum(
                (p * row[column] for p, row in zip(price, table, strict=True) if p), Fraction(0)
            )
            if gain > 0:
                break
        else:
            return sum((p * row[-1] for p, row in zip(price, table, strict=True)), Fraction(0))
        ratios = [
            (row[-1] / row[column], basis[i], i) for i, row in enumerate(table) if row[column] > 0
        ]
        _pivot(table, basis, min(ratios)[2], column)


def _pivot(table, basis, i, column):
    by = table[i][column]
    table[i] = [value / by for value in table[i]]
    for k, row in enumerate(table):
        if k != i and row[column]:
            factor = row[column]
            table[k] = [a - factor * b for a, b in zip(row, table[i], strict=True)]
    basis[i] = column
