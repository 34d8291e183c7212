"""Use of every tenant in a simulated window, in compiled code and computed on demand.

``total`` (t, c) is resource × seconds in the window as of ``since`` (t,), and ``rate`` (t, c) the
amount in use ever since. The windows are those of :mod:`policies.long_term.windows`.
"""

from __future__ import annotations

import numpy as np

from policies.compiled import compiled

UNBOUNDED, TUMBLING, SLIDING, DECAY = 0, 1, 2, 3
# Two running sums of which one is taken off the other: what is left below this part of them is
# rounding. Sums of whole numbers are exact and leave none.
ROUNDING = 1e-12


@compiled
def progress(kind, half_life, boundary, since, now):
    """Return the factor of a total as of ``since``, and the seconds of a rate since then.

    Args:
        kind: one of the four constants.
        half_life: seconds; of a decaying window.
        boundary: seconds; where a tumbling window last began anew, at most ``now``.
        since, now: seconds.
    """
    if kind == TUMBLING and boundary > since:
        return 0.0, now - boundary
    if kind == DECAY:
        rate = np.log(2.0) / half_life
        faded = -np.expm1(-rate * (now - since))
        return 1.0 - faded, faded / rate
    return 1.0, now - since


@compiled
def settle(tenant, now, kind, half_life, boundary, total, rate, since):
    """Bring a tenant's totals up to ``now``, before its rates change."""
    kept, seconds = progress(kind, half_life, boundary, since[tenant], now)
    for c in range(total.shape[1]):
        total[tenant, c] = total[tenant, c] * kept + rate[tenant, c] * seconds
    since[tenant] = now


@compiled
def forget(until, cursor, rows, log_time, log_tenant, log_rate, total, rate, since):
    """Repeat the log's changes through ``until`` and return the cursor after them.

    ``until`` is the start of a sliding window.
    """
    while cursor < rows and log_time[cursor] <= until:
        tenant = log_tenant[cursor]
        settle(tenant, log_time[cursor], UNBOUNDED, 0.0, 0.0, total, rate, since)
        for c in range(total.shape[1]):
            rate[tenant, c] = log_rate[cursor, c]
        cursor += 1
    return cursor
