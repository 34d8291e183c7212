"""Result of a simulation, with times, use, shares and sharing degrees.

Source: the measures of Tang et al., TPDS 2018, §7 and Wang et al., TPDS 2015, §6 (policies §8).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from policies.arrays import FloatArray, IntArray, grouped_sum, read_only
from policies.long_term.windows import Intervals, Window, amount_within
from policies.model.history import least_degree, sharing_degrees
from policies.model.problem import Problem
from policies.simulation.server_changes import ServerChanges
from policies.simulation.trace import Trace


@dataclass(frozen=True, eq=False, kw_only=True)
class Simulation:
    """Times of every task of a trace, and the use of every tenant.

    Attributes:
        problem, trace, policy, window, changes: what was simulated.
        start: (N,) seconds at which each task began; NaN if it never did.
        end: (N,) seconds at which it ended; NaN if it had not when the simulation ended.
        server: (N,) where it ran, as the problem counts servers row by row; -1 if it did not begin, has
            several pieces, or ran in a pool that counts as one server or in a part of one.
        piece_task, piece_kind, piece_server: (P,) task, kind of pieces (0 or 1) and server of each piece
            of the tasks with gangs that began.
        ended: seconds at which the simulation ended.
        changed_at: (E,) seconds, ascending, at which a tenant came to use another amount, or
            would have alone; changed_tenant: (E,) which; changed_rate: (E, 2 m) what it used of
            each resource from then on, then what it would have used in its own partition.
    """

    problem: Problem
    trace: Trace
    policy: str
    window: Window
    changes: ServerChanges
    start: FloatArray
    end: FloatArray
    server: IntArray
    piece_task: IntArray
    piece_kind: IntArray
    piece_server: IntArray
    ended: float
    changed_at: FloatArray
    changed_tenant: IntArray
    changed_rate: FloatArray

    @cached_property
    def used_intervals(self) -> Intervals:
        """Use of tenants over time, in the resources' units, for windows and sums."""
        return self._intervals(self.changed_rate[:, : self.problem.m])

    @cached_property
    def alone_intervals(self) -> Intervals:
        """Use that tenants would have had in their own partition."""
        return self._intervals(self.changed_rate[:, self.problem.m :])

    @cached_property
    def waiting(self) -> FloatArray:
        """Seconds from submission to the beginning of each task (N,), NaN if it never began."""
        return read_only(self.start - self.trace.submit)

    @cached_property
    def completion(self) -> FloatArray:
        """Seconds from submission to the end of each task (N,), NaN if it did not end."""
        return read_only(self.end - self.trace.submit)

    @cached_property
    def used(self) -> FloatArray:
        """Resource × seconds (t, m) that each tenant used in all, whatever the window."""
        return read_only(amount_within(self.used_intervals, self.problem.t))

    @cached_property
    def alone(self) -> FloatArray:
        """Resource × seconds (t, m) that it would have used in its own partition."""
        return read_only(amount_within(self.alone_intervals, self.problem.t))

    @cached_property
    def sharing_degree(self) -> FloatArray:
        """Sharing degree ``β`` of each tenant (t,), the least ``used / alone`` over resources.

        NaN without any ``alone``.
        """
        return read_only(least_degree(sharing_degrees(self.used, self.alone)))

    @cached_property
    def completed(self) -> FloatArray:
        """Tasks that ended over tasks submitted for each tenant (t,), NaN if it submitted none."""
        owner: IntArray = self.problem.workload_tenant[self.trace.workload]
        ended = grouped_sum((~np.isnan(self.end)).astype(np.float64), owner, self.problem.t)
        submitted = grouped_sum(np.ones(len(owner)), owner, self.problem.t)
        share = np.full(self.problem.t, np.nan)
        return read_only(np.divide(ended, submitted, out=share, where=submitted > 0))

    @cached_property
    def utilisation(self) -> tuple[FloatArray, FloatArray]:
        """((E,) seconds, (E, m) part of the pool in use from each until the next)."""
        intervals = self.used_intervals
        time = np.concatenate([intervals.start, intervals.end])
        change = np.concatenate([intervals.rate, -intervals.rate])
        times, position = np.unique(time, return_inverse=True)
        in_use = np.zeros((len(times), self.problem.m))
        for r in range(self.problem.m):
            in_use[:, r] = np.cumsum(grouped_sum(change[:, r], position, len(times)))
        return read_only(times), read_only(self._as_shares(in_use))

    @property
    def mean_utilisation(self) -> FloatArray:
        """Part (m,) of the pool in use from the first submission to the end of the simulation."""
        seconds = self.ended - float(self.trace.submit.min(initial=self.ended))
        if seconds <= 0:
            return np.zeros(self.problem.m)
        return self._as_shares(self.used.sum(axis=0) / seconds)

    def dominant_shares_at(self, times: npt.ArrayLike) -> FloatArray:
        """Return the largest part of any resource that each tenant uses at each time (len(times), t).

        Args:
            times: seconds; what begins at a time counts, what ends at it does not.
        """
        intervals, found = self.used_intervals, []
        for at in np.asarray(times, dtype=np.float64):
            now = (intervals.start <= at) & (at < intervals.end)
            rate = np.zeros((self.problem.t, self.problem.m))
            rate[intervals.tenant[now]] = intervals.rate[now]
            found.append(self._as_shares(rate).max(axis=1, initial=0.0))
        return np.reshape(found, (len(found), self.problem.t))

    def sharing_degrees_at(self, times: npt.ArrayLike) -> FloatArray:
        """Return the sharing degrees ``β`` (len(times), t) from the beginning to each time.

        NaN without any ``alone``.

        Args:
            times: seconds.
        """
        until = np.asarray(times, dtype=np.float64)
        used = self.used_at(until)
        alone = self._amounts_until(self.alone_intervals, until)
        found = [least_degree(sharing_degrees(*both)) for both in zip(used, alone, strict=True)]
        return np.reshape(found, (len(until), self.problem.t))

    def used_at(self, times: npt.ArrayLike) -> FloatArray:
        """Return the resource × seconds (len(times), t, m) that each tenant used up to each time."""
        return self._amounts_until(self.used_intervals, np.asarray(times, dtype=np.float64))

    def _amounts_until(self, intervals: Intervals, times: FloatArray) -> FloatArray:
        """Return the resource × seconds (len(times), t, m) up to each time, like `amount_within`.

        It takes one pass: the intervals are in the order of tenants, and each tenant's follow each
        other.
        """
        amounts = np.zeros((len(times), self.problem.t, self.problem.m))
        edges = np.searchsorted(intervals.tenant, np.arange(self.problem.t + 1))
        for tenant, (first, last) in enumerate(pairwise(edges.tolist())):
            start, end = intervals.start[first:last], intervals.end[first:last]
            rate = intervals.rate[first:last]
            before = np.zeros((last - first + 1, self.problem.m))
            np.cumsum(rate * (end - start)[:, None], axis=0, out=before[1:])
            latest = np.searchsorted(start, times) - 1
            begun = np.flatnonzero(latest >= 0)
            row = latest[begun]
            seconds = np.minimum(end[row], times[begun]) - start[row]
            amounts[begun, tenant] = before[row] + rate[row] * seconds[:, None]
        return amounts

    def _as_shares(self, amount: FloatArray) -> FloatArray:
        share = np.zeros_like(amount)
        np.divide(amount, self.problem.totals, out=share, where=self.problem.totals > 0)
        return share

    def _intervals(self, rate: FloatArray) -> Intervals:
        """From changes in the order of time to the intervals in which something is in use."""
        order = np.argsort(self.changed_tenant, kind="stable")
        start, owner = self.changed_at[order], self.changed_tenant[order]
        end = np.full(len(start), self.ended)
        followed = np.flatnonzero(owner[1:] == owner[:-1])
        # Servers and terms can change while tasks wait that never begin, after the last task has ended.
        end[followed] = np.minimum(start[followed + 1], self.ended)
        kept = (end > start) & (rate[order] > 0).any(axis=1)
        return Intervals(
            start=start[kept], end=end[kept], tenant=owner[kept], rate=rate[order[kept]]
        )
