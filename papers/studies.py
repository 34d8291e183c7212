"""Tables and figures that can be reproduced, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from papers import (
    facebook,
    google_day,
    hmrf_cluster,
    hmrf_examples,
    mrfs_penalty,
    mrfs_series,
)
from papers.finding import Finding
from papers.hmrf_properties import reproduce_table_2
from papers.hmrf_two_jobs import reproduce_two_jobs
from papers.joining_users import reproduce_joining_users
from papers.mrfs_fair_share import reproduce_fair_shares
from papers.partitions import reproduce_strong_sharing_incentive
from papers.small_and_large import reproduce_small_and_large
from papers.tda_scenarios import reproduce_scenarios
from papers.two_jobs_change import reproduce_changing_jobs
from policies import ProblemError


@dataclass(frozen=True)
class Study:
    """Reproduction of a table or figure.

    Attributes:
        title: what it is.
        run: gives the finding; it is handed the folder of traces.
        file: the trace that it needs, in that folder; None if it needs none.
    """

    title: str
    run: Callable[[Path], Finding]
    file: Path | None = None


STUDIES: Mapping[str, Study] = {
    "drfh-fig5": Study(
        "DRFH, Fig. 5: users joining 100 servers", lambda _: reproduce_joining_users()
    ),
    "drfh-table2": Study(
        "DRFH, Table 2: utilisation by slot size", google_day.reproduce_slot_sizes, google_day.FILE
    ),
    "drfh-fig6": Study(
        "DRFH, Fig. 6: utilisation over time", google_day.reproduce_utilisation, google_day.FILE
    ),
    "drfh-fig7": Study(
        "DRFH, Fig. 7: completion times by job size",
        google_day.reproduce_completion_times,
        google_day.FILE,
    ),
    "drfh-fig8": Study(
        "DRFH, Fig. 8: tasks completed against slots",
        google_day.reproduce_completion_ratios,
        google_day.FILE,
    ),
    "drfh-fig9": Study(
        "DRFH, Fig. 9: tasks completed against dedicated clouds",
        google_day.reproduce_dedicated_clouds,
        google_day.FILE,
    ),
    "drfh-prop4": Study(
        "DRFH, Proposition 4: strong sharing incentive fails",
        lambda _: reproduce_strong_sharing_incentive(),
    ),
    "drf-fig8": Study(
        "DRF, Fig. 8: two jobs whose tasks change", lambda _: reproduce_changing_jobs()
    ),
    "drf-fig9": Study(
        "DRF, Figs 9 to 12: small and large jobs under DRF, slots and CPU-fair",
        lambda _: reproduce_small_and_large(),
    ),
    "drf-fig13": Study(
        "DRF, Fig. 13: utilisation under DRF and slots",
        facebook.reproduce_utilisation,
        facebook.FILE,
    ),
    "drf-fig14": Study(
        "DRF, Fig. 14: completion times by job size",
        facebook.reproduce_completion_times,
        facebook.FILE,
    ),
    "h-mrf-table1": Study(
        "H-MRF, Table 1: fairness without memory and in the long term",
        lambda _: hmrf_examples.reproduce_table_1(),
    ),
    "h-mrf-fig3": Study(
        "H-MRF, Figs 3 to 5: Example 4 under three policies",
        lambda _: hmrf_examples.reproduce_example_4(),
    ),
    "h-mrf-table2": Study(
        "H-MRF, Table 2: properties of five policies over time", lambda _: reproduce_table_2()
    ),
    "h-mrf-fig7": Study(
        "H-MRF, Fig. 7: two jobs, the second one minute later", lambda _: reproduce_two_jobs()
    ),
    "h-mrf-fig8": Study(
        "H-MRF, Fig. 8: sharing degrees of four users",
        hmrf_cluster.reproduce_sharing_degrees,
        hmrf_cluster.FILE,
    ),
    "h-mrf-fig9": Study(
        "H-MRF, Fig. 9: utilisation and performance against static partitions",
        hmrf_cluster.reproduce_performance,
        hmrf_cluster.FILE,
    ),
    "tda-fig5": Study("TDA, Figs 5.1 and 5.2: 180 scenarios", lambda _: reproduce_scenarios()),
    "mrfs-table1": Study("MRFS, Table I: what β may be", lambda _: mrfs_penalty.reproduce_betas()),
    "mrfs-table2": Study(
        "MRFS, Table II: the penalty", lambda _: mrfs_penalty.reproduce_penalties()
    ),
    "mrfs-fig6": Study(
        "MRFS, Fig. 6: requests by dominant resource", lambda _: mrfs_series.reproduce_counts()
    ),
    "mrfs-fig7": Study(
        "MRFS, Fig. 7: parts of the pool for dominant requests",
        lambda _: mrfs_series.reproduce_pool_parts(),
    ),
    "mrfs-fig8": Study(
        "MRFS, Fig. 8: parts of each resource for dominant requests",
        lambda _: mrfs_series.reproduce_resource_parts(),
    ),
    "mrfs-fig9": Study(
        "MRFS, Fig. 9: what each user is allocated", lambda _: mrfs_series.reproduce_users()
    ),
    "mrfs-fig10": Study(
        "MRFS, Fig. 10: fair shares of dominant requests", lambda _: reproduce_fair_shares()
    ),
}


def reproduce(name: str, data: Path | None) -> Finding:
    """Run one study.

    Args:
        name: of ``STUDIES``.
        data: folder of traces; None where there is none.

    Raises:
        ProblemError: the trace that it needs is not there.
    """
    study = STUDIES[name]
    if study.file is not None and (data is None or not (data / study.file).exists()):
        where = "ALLOCATOR_DATA_DIR is not set" if data is None else f"{data} does not have it"
        raise ProblemError(
            "reproduction.data",
            f"{name} needs {study.file}, in the folder that ALLOCATOR_DATA_DIR names: {where}",
        )
    # Studies without a trace do not look at the folder.
    return study.run(data or Path())
