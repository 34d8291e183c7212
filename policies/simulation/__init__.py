"""Trace-driven simulation: tasks arrive, run and end; after each event a policy hands out what fits."""

from policies.simulation.cluster import POLICIES
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
from policies.simulation.outcome import Simulation
from policies.simulation.server_changes import ServerChanges
from policies.simulation.simulator import simulate
from policies.simulation.trace import Trace

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
