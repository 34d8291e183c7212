"""Trace-driven simulation of policies on arriving, running and ending tasks.

After each event a policy hands out what fits. Names are loaded when they are first used, as those
of `policies` are.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policies.simulation.measurements import (
        JOB_SIZES,
        Completion,
        Jobs,
        SizeClass,
        Spread,
        completion_against,
        distribution,
        envy,
        fairness_of,
        jobs_of,
        longest_starvation,
        over_seeds,
        reduction_by_job_size,
        utilisation_between,
    )
    from policies.simulation.outcome import (
        Simulation,
    )
    from policies.simulation.selection import (
        POLICIES,
        choose_simulated,
    )
    from policies.simulation.server_changes import (
        ServerChanges,
    )
    from policies.simulation.simulator import (
        simulate,
    )
    from policies.simulation.trace import (
        Trace,
    )

__all__ = [
    "JOB_SIZES",
    "POLICIES",
    "Completion",
    "Jobs",
    "ServerChanges",
    "Simulation",
    "SizeClass",
    "Spread",
    "Trace",
    "choose_simulated",
    "completion_against",
    "distribution",
    "envy",
    "fairness_of",
    "jobs_of",
    "longest_starvation",
    "over_seeds",
    "reduction_by_job_size",
    "simulate",
    "utilisation_between",
]

_HOMES = {
    "policies.simulation.selection": (
        "POLICIES",
        "choose_simulated",
    ),
    "policies.simulation.measurements": (
        "JOB_SIZES",
        "Completion",
        "Jobs",
        "SizeClass",
        "Spread",
        "completion_against",
        "distribution",
        "envy",
        "fairness_of",
        "jobs_of",
        "longest_starvation",
        "over_seeds",
        "reduction_by_job_size",
        "utilisation_between",
    ),
    "policies.simulation.outcome": ("Simulation",),
    "policies.simulation.server_changes": ("ServerChanges",),
    "policies.simulation.simulator": ("simulate",),
    "policies.simulation.trace": ("Trace",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
