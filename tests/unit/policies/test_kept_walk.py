"""Pools that change at random while placed tasks keep their servers for a minimum."""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from policies import (
    CurrentPlacements,
    DatedPlacements,
    Problem,
    current_placements_of,
    date_placements,
    solve,
    verify,
)
from tests.examples import long
from tests.references.fewest_moves import fewest_taken
from tests.references.kept_tasks import kept_pieces

ROWS, PER_ROW, TENANTS = 4, 3, 4


class Walk:
    """Decisions about a pool, one after the other, and what a plain list of dates says about them.

    Attributes:
        begun: for each workload and server, the instant at which each task was placed, and whether it
            was once as old as its minimum.
        taken, least: tasks that lost their servers, and the fewest that could have for these decisions.
        heirs: (server, workload that lost a task, workload that was given one, instant).
        returns: tasks that lost their server to the workload from which they had it.
    """

    def __init__(self, seed, sizes):
        self.random = np.random.default_rng(seed)
        self.clock = 0.0
        self.minimum = self.random.choice([0, 60, 300, 900], TENANTS + 2).astype(float)
        self.problem = Problem.create(
            resources=["cpu", "gpu"],
            capacity=self.random.choice([4, 8, 16], (ROWS, 2)),
            server_count=np.full(ROWS, PER_ROW),
            tenants=[f"t{i}" for i in range(TENANTS)],
            workload_tenant=[*range(TENANTS), 0, 1],
            demand=self.random.choice(sizes, (TENANTS + 2, 2)),
            tasks=np.full(TENANTS + 2, 8.0),
        )
        self.answer = self.running = self.dated = None
        self.begun = defaultdict(list)
        self.taken = self.least = self.returns = 0
        self.heirs = set()
        self.shortest = self.minimum.copy()

    def change(self):
        """Change demands, weights, servers or minima, and let time pass."""
        random, problem = self.random, self.problem
        self.clock += float(random.choice([1, 30, 120, 600]))
        kind = random.integers(5)
        if kind <= 1:
            tasks = problem.tasks.copy()
            tasks[random.integers(problem.n)] = random.choice([0, 2, 6, 20, np.inf])
            self.problem = replace(problem, tasks=tasks)
        elif kind == 2:
            weight = problem.weight.copy()
            weight[random.integers(problem.t)] = random.choice([0.5, 1, 2, 4])
            self.problem = replace(problem, weight=weight)
        elif kind == 3:
            count = problem.server_count.copy()
            count[random.integers(problem.k)] = random.integers(1, PER_ROW + 1)
            self.problem = replace(problem, server_count=count)
        else:
            self.minimum[random.integers(problem.n)] = random.choice([0, 60, 300, 900])
            self.shortest = np.minimum(self.shortest, self.minimum)

    def decide(self):
        """Decide as the service does, and compare with the list of dates."""
        problem = self.problem
        if self.dated is not None:
            placements, since = self.dated.placements, self.dated.since
            young = since + self.minimum[placements.workload] > self.clock
            columns = ("workload", "row", "offset", "servers", "tasks")
            kept = CurrentPlacements(**{name: getattr(placements, name)[young] for name in columns})
            self.dated = DatedPlacements(placements=kept, since=since[young])
            problem = replace(problem, kept_placements=kept)
        answer = solve(problem, "drfh", mode="indivisible", running=self.running)
        assert verify(problem, answer, running=self.running).valid
        self.dated = date_placements(answer, self.running, self.dated, self.clock)
        self.running = current_placements_of(answer)
        self._compare(problem, answer)
        self.answer = answer

    def _compare(self, problem, answer):
        """Check what every server has lost, by row and position, as rows change in size."""
        for (j, _, _), begun in self.begun.items():
            for task in begun:
                task[1] |= self.clock - task[0] >= self.minimum[j]
        before = {} if self.answer is None else _by_position(self.answer)
        after = _by_position(answer)
        there = Counter()
        for (j, _, _), count in before.items():
            there[j] += count
        first = np.cumsum(problem.server_count) - problem.server_count
        present = {
            (j, int(first[row]) + at): count
            for (j, row, at), count in before.items()
            if at < problem.server_count[row]
        }
        kept = {(j, server): count for (j, _, server), count in kept_pieces(problem).items()}
        self.least += fewest_taken(problem, answer.tasks, present, kept)
        lost, given = defaultdict(list), defaultdict(set)
        for place in sorted(before.keys() | after.keys()):
            j, row, at = place
            begun, fewer = self.begun[place], before.get(place, 0) - after.get(place, 0)
            # Those past their minimum go first, then the youngest.
            begun.sort(key=lambda task: (task[1], task[0]))
            gone = [begun.pop() for _ in range(fewer)]
            begun += [[self.clock, False] for _ in range(-fewer)]
            if at >= problem.server_count[row]:
                continue
            self.taken += len(gone)
            asks_fewer = there[j] > problem.tasks[j]
            assert asks_fewer or all(past for _, past in gone), (place, gone, self.clock)
            if gone and not asks_fewer:
                lost[row, at] += [(j, t) for t, _ in gone]
            if fewer < 0:
                given[row, at].add(j)
        self._look_for_returns(lost, given)
        assert self._dates() == Counter(
            (*place, t)
            for place, begun in self.begun.items()
            for t, past in begun
            if not past and t > self.clock - self.minimum[place[0]]
        )

    def _look_for_returns(self, lost, given):
        """Count servers that went from one workload to another and back, none within the minimum."""
        for server, tasks in lost.items():
            for other, begun in tasks:
                for mine in given[server]:
                    if (server, mine, other, begun) in self.heirs:
                        self.returns += 1
                        assert self.clock - begun >= self.shortest[other]
        for server, tasks in lost.items():
            self.heirs |= {
                (server, j, heir, self.clock) for j, _ in tasks for heir in given[server]
            }

    def _dates(self):
        """The library's dates of tasks that are younger than their minimum."""
        rows, found = self.dated.placements, Counter()
        columns = (rows.workload, rows.row, rows.offset, rows.servers, rows.tasks, self.dated.since)
        for j, row, offset, servers, tasks, since in zip(
            *(c.tolist() for c in columns), strict=True
        ):
            for at in range(offset, offset + servers):
                if since > self.clock - self.minimum[j]:
                    found[j, row, at, since] += int(tasks)
        return found

    def quiet(self):
        """After the longest minimum, one decision is the one without kept tasks."""
        self.clock += 901
        self.decide()
        fresh = solve(self.problem, "drfh", mode="indivisible")
        assert self.answer.tasks.tolist() == fresh.tasks.tolist()


def _by_position(answer):
    """{(workload, row, position in the row): tasks}."""
    placed = Counter()
    columns = (column.tolist() for column in answer.placements_by_range())
    for j, row, offset, servers, tasks in zip(*columns, strict=True):
        for at in range(offset, offset + servers):
            placed[j, row, at] += int(tasks)
    return placed


def walk(seeds, steps, sizes):
    """Return the tasks that were taken, and the fewest for the same decisions."""
    taken = least = returns = 0
    for seed in seeds:
        pool = Walk(seed, sizes)
        pool.decide()
        for step in range(steps):
            pool.change()
            pool.decide()
            if step % 20 == 19:
                pool.quiet()
        taken, least, returns = taken + pool.taken, least + pool.least, returns + pool.returns
    print(
        f"\n{len(seeds) * steps:,} random steps with tasks of sizes {sizes}: {taken:,} tasks taken, of"
        f" at least {least:,} for the same decisions; {returns:,} servers returned, none too early"
    )
    return taken, least


def assert_nothing_young_is_taken(seeds, steps):
    for sizes in ([1, 2, 4], [1]):
        taken, least = walk(seeds, steps, sizes)
        assert taken <= 1.1 * least


def test_random_steps_take_back_nothing_young():
    assert_nothing_young_is_taken(range(2), 40)


@long
def test_ten_thousand_random_steps_take_back_nothing_young():
    assert_nothing_young_is_taken(range(100), 100)
