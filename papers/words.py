"""Numbers as the tables print them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from papers.finding import Row, Verdict
from policies.simulation import Spread


def percent(value: float) -> str:
    """Return a value in per cent with one decimal, or a dash for NaN."""
    # Only NaN differs from itself.
    return "–" if value != value else f"{100 * value:.1f} %"


def spread(found: Spread, *place: int) -> str:
    """Return the mean of one measurement in per cent, and its range over the seeds.

    A dash if a seed gave no number.
    """
    mean, least, most = (float(part[place]) for part in (found.mean, found.least, found.most))
    # A range of one number would look like a measurement of how seeds differ.
    if found.count == 1 or least == most or mean != mean:
        return percent(mean)
    return f"{percent(mean)} ({100 * least:.1f} to {100 * most:.1f})"


def yes_or_no(holds: bool) -> str:
    """Return the answer of a table to a yes-or-no question."""
    return "yes" if holds else "no"


def claim(what: str, holds: bool) -> Row:
    """Return a row with a sentence of the paper and whether it is true here."""
    return Row(what, "yes", yes_or_no(holds))


def numbers(values: Iterable[float]) -> str:
    """Numbers with commas between them, as short as they are exact to six digits."""
    return ", ".join(f"{value:.6g}" for value in values)


def word_for_word(rows: Sequence[Row]) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict on rows whose numbers must be the paper's, and the reasons of differences."""
    differing = [row.what for row in rows if row.paper != row.ours]
    verdict = Verdict.of(row.paper == row.ours for row in rows)
    if not differing:
        return verdict, ("None: the answer is exact.",)
    return verdict, ("Another number came out of: " + "; ".join(differing) + ".",)
