"""Intervals cut into pieces by SQL: which pieces an interval reaches into, and for how long.

The statement has the parameters `edges` (ascending instants, of which the first and the last are
the ends of the whole) and `pieces` (their number less one). Intervals reach into the whole.
"""


def pieces_of(start: str, end: str) -> str:
    """A lateral table `piece`, counted from 1, of the pieces that `[start, end)` reaches into."""
    return f"""LATERAL generate_series(
        greatest(width_bucket({start}, %(edges)s::timestamptz[]), 1),
        least(width_bucket({end} - interval '1 microsecond', %(edges)s::timestamptz[]),
              %(pieces)s)) AS piece"""


def seconds_inside(start: str, end: str) -> str:
    """The seconds of `[start, end)` in the `piece`: exact, with six fractional digits."""
    return f"""extract(epoch FROM least({end}, (%(edges)s::timestamptz[])[piece + 1])
                         - greatest({start}, (%(edges)s::timestamptz[])[piece]))"""
