"""Traces of submitted tasks, from files and from seeds."""

from policies.simulation.traces.alibaba import read_alibaba, read_alibaba_servers
from policies.simulation.traces.generated import (
    GOOGLE_SERVERS,
    ServerRows,
    google_servers,
    resampled_day,
)
from policies.simulation.traces.google import read_google_t0
from policies.simulation.traces.lines import BadLine, TraceLineError
from policies.simulation.traces.sacct import read_sacct
from policies.simulation.traces.submitted import Submitted
from policies.simulation.traces.swf import read_swf
from policies.simulation.traces.swim import FACEBOOK_MIX, read_swim
from policies.simulation.traces.table import read_table

__all__ = [
    "FACEBOOK_MIX",
    "GOOGLE_SERVERS",
    "BadLine",
    "ServerRows",
    "Submitted",
    "TraceLineError",
    "google_servers",
    "read_alibaba",
    "read_alibaba_servers",
    "read_google_t0",
    "read_sacct",
    "read_swf",
    "read_swim",
    "read_table",
    "resampled_day",
]
