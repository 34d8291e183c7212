"""A simulation with tasks of several pieces, in rational arithmetic.

At every turn the pieces are placed anew on what the running ones leave, by the reference of decisions.
"""

from fractions import Fraction

from tests.references.gangs import Pool, can_start, launch
from tests.references.limits import is_below
from tests.references.numbers import exact
from tests.references.simulation import LONG_TERM, Simulated


class SimulatedGangs(Simulated):
    """A `Simulated` in which ``pieces[k]`` has kind, server and demand of each piece of a task."""

    def own_servers(self):
        self.pieces = {}
        # No server has room for the sum of a gang.
        empty = Pool(self.problem, self.rule(), 0)
        self.pool.runnable = [
            not self.problem.out_of_range[j] and can_start(empty, j) for j in range(self.problem.n)
        ]
        super().own_servers()

    def rule(self):
        if self.policy in LONG_TERM:
            return "affinity"
        if self.policy == "static":
            return "first-fit"
        return self.options.get("placement", "best-fit")

    def pieces_of(self, task):
        if task in self.pieces:
            return [(demand, server) for _, server, demand in self.pieces[task]]
        return super().pieces_of(task)

    def next_task(self, i, now):
        for j in self.queue(i):
            gang = self.problem.gangs.get(j)
            if gang is None:
                servers = self.fitting(j, now, self.mine(i))
                if servers:
                    return self.of(j, now, False)[0], j, servers, self.left(now, i)
                continue
            running, waiting = len(self.of(j, now, True)), self.of(j, now, False)
            at_once = 1 if running else gang.at_least
            if len(waiting) < at_once or running + at_once > self.problem.tasks[j]:
                continue
            placed = launch(self.pool_now(i, now), j, at_once)
            if placed is not None:
                return waiting[:at_once], j, placed, None
        return None

    def mine(self, i):
        return range(len(self.capacity)) if self.own is None else self.own[i]

    def pool_now(self, i, now):
        """Return servers and limits less what runs. Nothing has room on servers that are not there."""
        pool = Pool(self.problem, self.rule(), 0)
        mine = set(self.mine(i))
        pool.row_of = self.row
        pool.left = [
            amount if self.there[server] and server in mine else [Fraction(-1)] * len(amount)
            for server, amount in enumerate(self.left(now, i))
        ]
        pool.totals = self.pool.total[:]
        if self.own is not None:
            pool.totals = [sum(self.capacity[s][r] for s in mine) for r in range(self.problem.m)]
        for limit, amounts in pool.limits:
            for demand in self.counted_by(limit, now):
                for r in amounts:
                    amounts[r] -= demand[r]
        return pool

    def exceeds_limit(self, j, server, now):
        demand = [exact(d) for d in self.problem.demand[j]]
        return any(
            demand[r]
            and sum(each[r] for each in self.counted_by(limit, now)) + demand[r] > exact(a)
            for limit in self.problem.limits
            if is_below(self.problem, limit, j) and self.counts_on(limit, server)
            for r, a in enumerate(limit.amount.tolist())
            if a < float("inf")
        )

    def begin(self, i, task, j, servers, left, now):
        if not isinstance(task, list):
            super().begin(i, task, j, servers, left, now)
            return
        each = len(servers) // len(task)
        for position, one in enumerate(task):
            self.pieces[one] = servers[position * each : (position + 1) * each]
            self.start[one], self.end[one] = now, now + self.duration[one]

    def total_before(self, ended, which, i, r):
        """Return an amount until a simulation ended, whatever changes of servers come later."""
        return sum(
            (max(min(end, exact(ended)) - begin, 0)) * (used, alone)[which][i][r]
            for begin, end, used, alone in self.stretches
        )

    def places(self):
        """Return task, kind and server of each piece of the gangs that began."""
        return sorted(
            (task, kind, self.number[server])
            for task, pieces in self.pieces.items()
            for kind, server, _ in pieces
        )
