"""Rounds of demand that changes: nothing above the decision, nothing left waiting, never too much."""

import itertools
from datetime import datetime

import pytest

from tests.examples import thorough
from tests.slurm.conftest import NODES, decided_by_partition, pool_for
from tests.slurm.demand import ACCOUNTS, Demand, Watch, counted
from tests.slurm.sampling import Sampler

CAPACITY = {"cpu": sum(node.cpus for node in NODES), "mem": sum(node.memory for node in NODES)}
FEW, ALL = 3, 50


@pytest.mark.parametrize("seed", [14])
def test_rounds_of_changing_demand(operator, service, agent, quiet, seed):
    """50 rounds with `--thorough`, 3 without."""
    pool = pool_for(operator, agent)
    agent.configure(url=service.url, slurm="classes = yes", reclaim="requeue")
    quiet.add_accounts(*ACCOUNTS)
    agent.run("--once")
    waited = []
    demand, watch, rounds = Demand(quiet, seed), Watch(), ALL if thorough() else FEW
    with Sampler(quiet) as sampler:
        for _ in range(rounds):
            demand.change()
            agent.run("--once")
            waited.append(seconds_to_limits(operator, pool))
            decided = decided_by_partition(operator, pool)
            quiet.settled(seconds=12)
            watch.look(decided, *counted(quiet))
    p50, p95 = (sorted(waited)[int(part * (rounds - 1))] for part in (0.5, 0.95))
    print(f"\n{rounds} rounds: above the decision after {watch.above} of them,")
    print(
        f"longer than two rounds waiting: {watch.waited}; {sampler.samples} samples of all limits"
    )
    print(f"from a decision to its limits, applied and read back: p50 {p50:.2f} s, p95 {p95:.2f} s")
    assert (watch.above, watch.waited) == (0, 0)
    assert sampler.samples > rounds
    assert all(sampler.most[name] <= most for name, most in CAPACITY.items()), sampler.most
    for partition, (tres, size) in itertools.product(
        {node.partition for node in NODES}, (("cpu", "cpus"), ("mem", "memory"))
    ):
        there = sum(getattr(node, size) for node in NODES if node.partition == partition)
        assert sampler.most_in[partition, tres] <= there


def seconds_to_limits(operator, pool):
    """From the publication of the decision in force to the agent's report that it is applied."""
    decision = operator.get(f"{pool}/decision/").body["run"]
    report = operator.get(f"{pool}/enforcement/").body["agents"][0]
    assert report["run"] == decision["id"], operator.get(f"{pool}/runs/").body["results"]
    begun, done = map(datetime.fromisoformat, (decision["finished_at"], report["reported_at"]))
    return (done - begun).total_seconds()
