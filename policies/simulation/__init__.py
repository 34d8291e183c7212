"""Trace-driven simulation: tasks arrive, run and end; after each event a policy hands out what fits."""

from policies.simulation.cluster import POLICIES
from policies.simulation.outcome import Simulation
from policies.simulation.server_changes import ServerChanges
from policies.simulation.simulator import simulate
from policies.simulation.trace import Trace

__all__ = ["POLICIES", "ServerChanges", "Simulation", "Trace", "simulate"]
