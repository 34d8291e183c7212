"""MRFS in rational arithmetic, criterion by criterion: slow, and plainly right."""

from fractions import Fraction

from tests.references.long_term import weights_of
from tests.references.numbers import exact


def place(problem):
    """(workload, row, server) of every request in the order in which they are placed, and counts."""
    servers = []
    for row in range(problem.k):
        if not problem.contributed_only[row] and problem.capacity[row].any():
            capacity = [exact(c) for c in problem.capacity[row]]
            labels, count = problem.server_labels[row], int(problem.server_count[row])
            servers += [Server(row, capacity, labels) for _ in range(count)]
    total = [sum(server.capacity[r] for server in servers) for r in range(problem.m)]
    demand = [[exact(d) for d in row] for row in problem.demand]
    weight, second = weights_of(problem, total)
    log, count = [], [0] * problem.n

    def with_room(j):
        return [s for s in servers if s.allows(problem.selectors[j]) and s.fits(demand[j])]

    runnable = [j for j in range(problem.n) if with_room(j) and not problem.out_of_range[j]]
    for stage in (False, True):
        queue = {
            i: sorted(
                (j for j in runnable if problem.workload_tenant[j] == i),
                key=lambda j: (-problem.priority[j], j),
            )
            for i in range(problem.t)
            if second[i] == stage
        }
        placed = dict.fromkeys(queue, 0)
        while queue:
            i = min(queue, key=lambda i: (placed[i] / weight[i], i))
            if not queue[i]:
                del queue[i]
                continue
            j = queue[i][0]
            if count[j] >= problem.tasks[j] or not with_room(j):
                queue[i].pop(0)
                continue
            server = min(with_room(j), key=lambda s: s.order(demand[j]))
            server.host(demand[j])
            log.append((j, server.row, servers.index(server)))
            count[j] += 1
            placed[i] += 1
    return log, count


class Server:
    def __init__(self, row, capacity, labels):
        self.row, self.capacity, self.labels = row, capacity, labels
        self.left = capacity[:]
        self.hosted = [0] * len(capacity)
        self.aggregate = Fraction(0)

    def allows(self, selector):
        return all(self.labels.get(label) in values for label, values in selector.items())

    def fits(self, demand):
        return all(d <= c for d, c in zip(demand, self.left, strict=True))

    def shares(self, demand):
        return [d / c if c else Fraction(0) for d, c in zip(demand, self.capacity, strict=True)]

    def dominant(self, demand):
        shares = self.shares(demand)
        return shares.index(max(shares))

    def order(self, demand):
        """What the server with the least goes first by; ``min`` keeps the first by position."""
        present = [r for r, c in enumerate(self.capacity) if c]
        after = [self.hosted[r] + (r == self.dominant(demand)) for r in present]
        room = min(self.left[r] / self.capacity[r] for r in present)
        return max(after) - min(after), self.aggregate, -room

    def host(self, demand):
        r = self.dominant(demand)
        self.hosted[r] += 1
        self.aggregate += self.shares(demand)[r]
        self.left = [c - d for c, d in zip(self.left, demand, strict=True)]
