"""Even split of every server, which can give a user more than DRFH does (DRFH, Proposition 4)."""

from __future__ import annotations

import numpy as np

from papers.finding import Finding, Row, Verdict
from policies import Problem, solve


def reproduce_strong_sharing_incentive() -> Finding:
    """Return the finding of exact shares beside those of an even split.

    Servers are (1, 2) and (4, 3), users (1, 1) and (3, 2).
    """
    problem = Problem.create(
        resources=("cpu", "memory"), capacity=[[1, 2], [4, 3]], tenants=["user 1", "user 2"],
        demand=[[1, 1], [3, 2]],
    )  # fmt: skip
    tasks = solve(problem, "drfh").tasks
    shares = tasks * problem.dominant_share_per_task
    halves = problem.capacity / 2
    split = (halves[None] / problem.demand[:, None]).min(axis=2).sum(axis=1)
    split_shares = split * problem.dominant_share_per_task
    holds = bool(
        np.allclose(shares, 12 / 25, rtol=1e-9) and np.allclose(split_shares, [2 / 5, 1 / 2])
    )
    return Finding(
        name="drfh-prop4",
        title="Strong sharing incentive fails",
        source="Wang, Liang, Li, TPDS 2015, Proposition 4",
        setting="Servers of 1 CPU and 2 memory, and of 4 and 3; tasks of (1, 1) and (3, 2); "
        "divisible `drfh`.",
        rows=(
            Row("dominant share of user 1 under DRFH", "12/25", f"{shares[0]:.9f}"),
            Row("dominant share of user 2 under DRFH", "12/25", f"{shares[1]:.9f}"),
            Row("dominant share of user 2 with half of every server", "1/2", f"{split_shares[1]:.9f}"),
            Row("tasks of user 1 and 2 with half of every server", "–",
                f"{split[0]:.4f}, {split[1]:.4f}"),
        ),
        differences=("None: the answer is exact.",),
        verdict=Verdict.YES if holds else Verdict.NO,
    )  # fmt: skip
