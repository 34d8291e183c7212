"""Demand that changes from round to round, drawn from a seed: jobs queued, jobs taken back."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tests.slurm.cluster import Cluster

# On one node of `big` and two of `small`; the shapes of a partition fill its nodes in any order.
SHAPES = {
    ("physics", "big"): 4096,
    ("biology", "big"): 1024,
    ("chemistry", "big"): 2048,
    ("physics", "small"): 256,
    ("biology", "small"): 512,
    ("chemistry", "small"): 512,
}
ACCOUNTS = ("physics", "biology", "chemistry")
Key = tuple[str, str]  # account, partition


class Demand:
    """Draws what the accounts want next, and does it."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster, self._random = cluster, random.Random(seed)
        self._jobs: dict[Key, list[int]] = {key: [] for key in SHAPES}

    def change(self) -> None:
        """Change what one to three of the queues want."""
        for key in self._random.sample(sorted(SHAPES), self._random.randint(1, 3)):
            wanted = self._random.randint(0, 9)
            jobs = self._jobs[key]
            account, partition = key
            options = (f"--partition={partition}", f"--mem={SHAPES[key]}")
            while len(jobs) > wanted:
                job = jobs.pop(self._random.randrange(len(jobs)))
                self._cluster.run("scancel", str(job), check=False)
            jobs += self._cluster.submit(account, *options, count=wanted - len(jobs))


@dataclass
class Watch:
    """Counts what must not be, over the rounds."""

    above: int = 0  # rounds after which somebody ran more than was decided
    waited: int = 0  # rounds in which something waited a third time
    waiting: Counter[Key] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.waiting = Counter()

    def look(
        self, decided: Mapping[Key, int], running: Counter[Key], pending: Counter[Key]
    ) -> None:
        """After a round: what runs, and what waits although the decision allows it."""
        self.above += any(count > decided.get(key, 0) for key, count in running.items())
        for key in SHAPES:
            held = pending[key] and running[key] < decided.get(key, 0)
            self.waiting[key] = self.waiting[key] + 1 if held else 0
            self.waited += self.waiting[key] > 2


def counted(cluster: Cluster) -> tuple[Counter[Key], Counter[Key]]:
    """Running jobs, and those that wait and may begin now, by account and partition."""
    running: Counter[Key] = Counter()
    pending: Counter[Key] = Counter()
    for line in cluster.run("squeue", "--noheader", "--format=%a|%P|%t|%r").splitlines():
        account, partition, state, reason = line.split("|")
        if state == "R":
            running[account, partition] += 1
        elif state == "PD" and reason != "BeginTime":  # Slurm lets requeued ones wait two minutes
            pending[account, partition] += 1
    return running, pending
