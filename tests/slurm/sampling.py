"""Looks at the limits of a running Slurm again and again, while they are changed."""

import threading
from collections import defaultdict

from allocator_agent.slurm.tres import read_limits
from tests.slurm.cluster import Cluster


class Sampler:
    """Reads all limits in a thread for as long as a `with` lasts.

    `most` is the largest sum of the accounts' limits that was ever seen, by resource; an account
    without a limit counts as `UNLIMITED`. `most_in` is the same of users' limits by partition.
    """

    UNLIMITED = 10**9

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.most: dict[str, int] = defaultdict(int)
        self.most_in: dict[tuple[str, str], int] = defaultdict(int)
        self.samples = 0

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            sums: dict[str, int] = defaultdict(int)
            parts: dict[tuple[str, str], int] = defaultdict(int)
            for account, user, partition, tres in self._rows():
                limits = read_limits(tres)
                for name in ("cpu", "mem"):
                    if account != "root" and not user:
                        sums[name] += limits.get(name, self.UNLIMITED)
                    elif user and partition:
                        parts[partition, name] += limits.get(name, self.UNLIMITED)
            for name, total in sums.items():
                self.most[name] = max(self.most[name], total)
            for key, total in parts.items():
                self.most_in[key] = max(self.most_in[key], total)
            self.samples += 1
            self._stopped.wait(0.01)

    def _rows(self) -> list[list[str]]:
        told = self._cluster.run(
            *("sacctmgr", "-nP", "show", "association", "format=account,user,partition,grptres"),
            check=False,
        )
        return [line.split("|") for line in told.splitlines() if line.count("|") == 3]
