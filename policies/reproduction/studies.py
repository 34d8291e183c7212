"""What can be reproduced, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from policies.errors import ProblemError
from policies.reproduction import google_day
from policies.reproduction.finding import Finding
from policies.reproduction.joining_users import reproduce_joining_users
from policies.reproduction.partitions import reproduce_strong_sharing_incentive
from policies.reproduction.small_and_large import reproduce_small_and_large


@dataclass(frozen=True)
class Study:
    """How a table or figure is reproduced.

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
    "drf-fig9": Study(
        "DRF, Figs 9 to 12: small and large jobs under DRF, slots and CPU-fair",
        lambda _: reproduce_small_and_large(),
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
    return study.run(data or Path())
