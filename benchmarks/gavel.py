"""Gavel's heterogeneity-aware max-min fairness beside `drfh`, on the case that both can express.

Gavel (Narayanan et al., OSDI 2020, §4.1) maximises ``min_m (1 / w_m) sum_j throughput[m, j] X[m, j]
scale_m``, each job's throughput normalised by what it has with equal shares of all accelerators,
subject to ``sum_j X[m, j] <= 1`` and ``sum_m scale_m X[m, j] <= count_j``. A problem of ours has no
throughput per class of servers. It can only express whether a job runs on a class. The case here
therefore has ``throughput[m, j]`` of 0 or ``t_m`` (selectors), and jobs that run at most all the time
(``tasks`` of 1). Gavel's water filling repeats the program and freezes the jobs that cannot have more.
As published, it finds them with one program per job.
"""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from benchmarks.exact_drfh import one_level
from benchmarks.measurement import Row, best_seconds
from benchmarks.peers import rounds_with_duals, shares_form
from policies import Problem, solve

# Accelerators of each type per hundred jobs.
PER_HUNDRED = (13, 18, 9)
TYPES = ("v100", "p100", "k80")
SCALES = (1, 1, 1, 1, 2, 4)
FROZEN = 1e-6


def measure(*, quick: bool) -> list[Row]:
    """Measure one level, and the whole water filling."""
    jobs = 120 if quick else 900
    return [
        *_one_level(jobs, repeat=3 if quick else 10),
        *_water_filling(50 if quick else 900, repeat=1 if quick else 2),
    ]


def accelerators(jobs: int) -> Problem:
    """Return a problem with three types of accelerators.

    A job takes 1, 2 or 4 at once, of the types that it can use.
    """
    random = np.random.default_rng(5)
    some = [{}, {"type": TYPES[:1]}, {"type": TYPES[:1]}, {"type": TYPES[:2]}]
    return Problem.create(
        resources=("accelerator",),
        capacity=[[1]] * len(TYPES),
        server_count=[each * jobs // 100 for each in PER_HUNDRED],
        server_labels=[{"type": name} for name in TYPES],
        tenants=[f"job-{i}" for i in range(jobs)],
        demand=random.choice(SCALES, (jobs, 1)),
        tasks=np.ones(jobs),
        weight=random.choice([0.5, 1.0, 2.0], jobs),
        selectors=[some[k] for k in random.integers(0, len(some), jobs)],
    )


class Gavel:
    """Gavel's program over the parts of the time ``X`` (jobs, types), for a level or with floors."""

    def __init__(self, problem: Problem) -> None:
        self.scale = problem.demand[:, 0]
        self.count = problem.server_count.astype(float)
        self.size = self.scale / self.count.sum() / problem.effective_weight
        self.usable = np.array(
            [
                [not selector or name in selector["type"] for name in TYPES]
                for selector in problem.selectors
            ]
        )

    def highest(self, kept: np.ndarray, rising: np.ndarray) -> tuple[float, np.ndarray]:
        """Maximise the least share of the ``rising`` jobs, and return it with the shares of all jobs.

        The other jobs have at least ``kept``.
        """
        share, constraints = self._shares()
        level = cp.Variable()
        constraints.append(share[np.flatnonzero(rising)] >= level)
        if not rising.all():
            fixed = np.flatnonzero(~rising)
            # A little less, or the tolerance of the last program may leave this one without a
            # solution.
            constraints.append(share[fixed] >= kept[fixed] * (1 - 1e-9))
        program = cp.Problem(cp.Maximize(level), constraints)
        program.solve(solver="ECOS")
        return float(program.value), np.asarray(share.value)

    def most(self, job: int, floor: np.ndarray) -> float:
        """Return the highest share of one job while all jobs have at least ``floor``."""
        share, constraints = self._shares()
        constraints.append(share >= floor * (1 - 1e-9))
        program = cp.Problem(cp.Maximize(share[job]), constraints)
        program.solve(solver="ECOS")
        return float(program.value)

    def _shares(self) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the (jobs,) weighted shares and their constraints, as expressions of a new ``X``."""
        jobs, types = self.usable.shape
        x = cp.Variable(jobs * types, nonneg=True)
        runs = self.usable.ravel()[None, :].astype(float)
        of_job = sp.kron(sp.eye(jobs), np.ones((1, types)), format="csr")
        of_type = sp.kron(self.scale[None, :], sp.eye(types), format="csr")
        share = sp.diags(self.size) @ of_job.multiply(runs).tocsr()
        return share @ x, [of_job @ x <= 1, of_type @ x <= self.count]

    def water_filling(self) -> np.ndarray:
        """Return the (jobs,) weighted shares of water filling.

        Each level freezes the jobs that cannot have more.
        """
        share, rising = np.zeros(len(self.size)), np.ones(len(self.size), dtype=np.bool_)
        while rising.any():
            level, _ = self.highest(share, rising)
            floor = np.where(rising, level, share)
            stuck = [
                job
                for job in np.flatnonzero(rising).tolist()
                if self.most(job, floor) <= level * (1 + FROZEN)
            ]
            share = floor
            rising[stuck] = False
        return share


def _one_level(jobs: int, *, repeat: int) -> list[Row]:
    """Measure ``max_min_fairness`` beside one level of ours, and beside all of ``solve``."""
    problem = accelerators(jobs)
    answer = solve(problem, "drfh")
    form = shares_form(problem)
    everybody, nothing = np.ones(jobs, dtype=np.bool_), np.zeros(jobs)
    theirs, (level, _) = best_seconds(
        lambda: Gavel(problem), lambda g: g.highest(nothing, everybody), repeat=repeat
    )
    alone, (ours, gap, _) = best_seconds(lambda: form, one_level, repeat=repeat)
    whole, _ = best_seconds(lambda: accelerators(jobs), lambda p: solve(p, "drfh"), repeat=repeat)
    sizes = _sizes(problem)
    return [
        Row(
            name="Gavel, max-min fairness, one level",
            sizes=sizes,
            our_value=alone,
            peer="its program, cvxpy ECOS",
            peer_value=theirs,
            agreement=abs(level / ours - 1),
            goal=15.0 if jobs >= 900 else None,
            notes=f"gap {gap:.0e}",
        ),
        Row(
            name="Gavel, max-min fairness, front door",
            sizes=sizes,
            our_value=whole,
            peer="its program, cvxpy ECOS",
            peer_value=theirs,
            agreement=abs(level / float(np.nanmin(answer.weighted_share)) - 1),
            goal=None,
            notes=f"ours is the whole leximin, {answer.statistics['rounds']} rounds",
        ),
    ]


def _water_filling(jobs: int, *, repeat: int) -> list[Row]:
    problem = accelerators(jobs)
    answer = solve(problem, "drfh")
    theirs, share = best_seconds(lambda: Gavel(problem), lambda g: g.water_filling(), repeat=repeat)
    frozen, (share_frozen, rounds) = best_seconds(
        lambda: shares_form(problem), rounds_with_duals, repeat=repeat
    )
    ours, _ = best_seconds(lambda: accelerators(jobs), lambda p: solve(p, "drfh"), repeat=repeat)
    row = Row(
        name="Gavel, water filling",
        sizes=_sizes(problem),
        our_value=ours,
        peer="a program per level and job, cvxpy ECOS",
        peer_value=theirs,
        agreement=float(np.abs(answer.weighted_share / share - 1).max()),
        goal=1000.0,
        notes=f"{answer.statistics['rounds']} rounds; its mixed-integer search is a program per job",
    )
    return [
        row,
        replace(
            row,
            peer=f"HiGHS, freezing by duals ({rounds} rounds)",
            peer_value=frozen,
            agreement=float(np.abs(answer.tenant_share / share_frozen - 1).max()),
            goal=None,
            notes=f"{answer.statistics['rounds']} rounds",
        ),
    ]


def _sizes(problem: Problem) -> str:
    return f"{problem.t} jobs, {problem.server_count.sum()} accelerators of {len(TYPES)} types"
