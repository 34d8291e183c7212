"""SQL that divides time ranges into the intervals of a period.

The statement has the parameters `edges` (ascending instants, of which the first and the last are the
ends of the period) and `intervals` (their number less one). Every range overlaps the period.
"""


def intervals_reached(start: str, end: str) -> str:
    """Return a lateral table `interval_number` of the intervals that `[start, end)` overlaps, from 1."""
    return f"""LATERAL generate_series(
        greatest(width_bucket({start}, %(edges)s::timestamptz[]), 1),
        least(width_bucket({end} - interval '1 microsecond', %(edges)s::timestamptz[]),
              %(intervals)s)) AS interval_number"""


def seconds_inside(start: str, end: str) -> str:
    """Return the seconds of `[start, end)` in `interval_number`, exact with six fractional digits."""
    return f"""extract(epoch FROM least({end}, (%(edges)s::timestamptz[])[interval_number + 1])
                         - greatest({start}, (%(edges)s::timestamptz[])[interval_number]))"""
