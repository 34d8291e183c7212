"""Trace-driven simulation: tasks arrive, run and end; after each event a policy hands out what fits."""

from policies.simulation.outcome import Simulation
from policies.simulation.simulator import POLICIES, simulate
from policies.simulation.trace import Trace

__all__ = ["POLICIES", "Simulation", "Trace", "simulate"]
