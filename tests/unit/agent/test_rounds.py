"""Reports of rounds."""

from allocator_agent.configuration import Configuration
from allocator_agent.model import Observation, Rendering
from allocator_agent.quantities import Units
from allocator_agent.rounds import Rounds
from allocator_agent.slurm.planning import SlurmPlan


class Both:
    """A scheduler without limits, and a service that keeps the last report."""

    target = "slurm"

    def applied(self, observed, *, fresh):
        return {}

    def report(self, body):
        self.body = body


def test_notes_are_no_problems_of_a_report():
    """They fail no round, so that the service must not show the agent with a problem."""
    both = Both()
    rounds = Rounds(Configuration("", "lab", "", "lab", "slurm"), both, both, interval_seconds=15)
    observed = Observation([], [], frozenset(), notes=["7 jobs ask for licences"])
    rounds._report(Rendering("", 1, [], []), observed, SlurmPlan(), Units([]), ["a problem"])
    assert both.body["problems"] == ["a problem"]
