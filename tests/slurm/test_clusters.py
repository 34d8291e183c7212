"""A real Slurm and a Kubernetes with Kueue that share one pool, each with an agent of its own.

`ALLOCATOR_ROUNDS` is the number of rounds; without it 100 with `--thorough`, else 5.
"""

import os
import random
import signal
import time
from functools import partial

import pytest

from launcher.processes import stop
from tests.examples import thorough
from tests.live.kueue_site import KueueAgent, Site, until
from tests.slurm.conftest import pool_for
from tests.slurm.sampling import Sampler

FROZEN_ROUNDS = 20
ROUNDS = int(os.environ.get("ALLOCATOR_ROUNDS", 100 if thorough() else 5))
FROZEN_SECONDS = 60 if thorough() else 5
HPC, K8S = "hpc", "k8s"
CPUS = {HPC: 16, K8S: 12}


@pytest.fixture
def site():
    running = Site()
    yield running
    running.server.stop()


class Clusters:
    """Both clusters, and what is decided for each."""

    def __init__(self, operator, agent, slurm, site):
        self.operator, self.agent, self.slurm, self.site = operator, agent, slurm, site
        self._path = f"/api/v1/pools/{agent.pool}"
        self.seen = ()
        self.most_used = dict.fromkeys(CPUS, 0)

    def ask(self, in_slurm, in_kueue):
        """Let accounts and namespaces want so many jobs of one CPU, in place of all others."""
        for account, jobs in in_slurm.items():
            self.slurm.run("scancel", f"--account={account}")
            if jobs:
                self.slurm.submit(account, f"--array=1-{jobs}", "--partition=big,small")
        for namespace, tasks in in_kueue.items():
            self.site.ask(namespace, tasks)

    def decided(self, cluster):
        """CPUs of each tenant that has any, on all servers or on those of a cluster."""
        query = f"?cluster={cluster}" if cluster else ""
        document = self.operator.get(f"{self._path}/decision/renderings/slurm/{query}").body
        cpus = {row["tenant"]: row["rendered"]["cpu"] for row in document["tenants"]}
        return {tenant: amount for tenant, amount in cpus.items() if amount}

    def obeyed(self, wanted):
        """Return whether the clusters match after a round of the agent of Slurm."""
        self.agent.run("--once")
        return self.match(wanted)

    def match(self, wanted):
        """Return whether the clusters with their CPUs `wanted` run and admit what was decided."""
        running = self.slurm.jobs("RUNNING")
        admitted = {name: cpus for name, cpus in self.site.cpus().items() if cpus}
        for cluster, used in ((HPC, running), (K8S, admitted)):
            self.most_used[cluster] = max(self.most_used[cluster], sum(used.values()))
        whole, parts = self.decided(""), {name: self.decided(name) for name in CPUS}
        if whole != self.decided(""):
            return False  # another decision was published meanwhile
        together = {tenant: sum(part.get(tenant, 0) for part in parts.values()) for tenant in whole}
        assert together == whole
        self.seen = (wanted, parts, running, admitted)
        present = {HPC: running, K8S: admitted}
        return all(
            sum(parts[name].values()) == cpus and present[name] == parts[name]
            for name, cpus in wanted.items()
        )

    def limits(self, cluster):
        """Return what the scheduler of a cluster obeys."""
        return self.slurm.limits() if cluster == HPC else self.site.quotas()


def test_a_slurm_and_a_kueue_share_one_pool(service, operator, agent, quiet, site, tmp_path):
    """One of the agents is frozen for a while, and the other cluster goes on."""
    chance = random.Random(20261126)
    pool_for(operator, agent)
    agent.configure(url=service.url, reclaim="requeue")
    agent.authorize(cluster=HPC)
    site.add_node("k1", K8S, CPUS[K8S])
    for name in ("shared", "kueue-only"):
        site.add_queue(name, {K8S: CPUS[K8S] // 2})
    quiet.add_accounts("shared", "slurm-only")
    clusters = Clusters(operator, agent, quiet, site)
    (tmp_path / "kueue").mkdir()
    kueue = KueueAgent(tmp_path / "kueue", site, service, agent.pool, cluster=K8S)
    kueue.start("0.3s")
    try:
        until(site.is_orchestrated, seconds=60)
        for number in range(ROUNDS):
            asked = [chance.choice([0, chance.randint(1, 8), 30]) for _ in range(4)]
            if number == ROUNDS // 2:
                freeze(kueue.process, clusters)
            clusters.ask(
                {"shared": asked[0], "slurm-only": asked[1]},
                {"shared": asked[2], "kueue-only": asked[3]},
            )
            wanted = {
                HPC: min(sum(asked[:2]), CPUS[HPC]),
                K8S: min(sum(asked[2:]), CPUS[K8S]),
            }
            try:
                until(partial(clusters.obeyed, wanted), seconds=120)
            except AssertionError as error:
                raise AssertionError(f"round {number}: {clusters.seen}") from error
        print(f"{ROUNDS} rounds; at most {clusters.most_used} CPUs in use of {CPUS}")
        assert site.excess == []
        assert all(clusters.most_used[name] <= CPUS[name] for name in CPUS)
        entitled = operator.get(f"/api/v1/pools/{agent.pool}/clusters/").body["clusters"]
        assert [(row["cluster"], row["capacity"]["cpu"]) for row in entitled] == [
            (HPC, "16"), (K8S, "12"),
        ]  # fmt: skip
        agents = operator.get(f"/api/v1/pools/{agent.pool}/enforcement/").body["agents"]
        assert {row["cluster"] for row in agents} == {HPC, K8S}
    finally:
        stop(kueue.process, patience_seconds=10)


@pytest.mark.skipif(not thorough(), reason="two minutes for each cluster")
@pytest.mark.parametrize("frozen", [HPC, K8S])
def test_an_agent_is_frozen_for_20_rounds(service, operator, agent, quiet, site, tmp_path, frozen):
    """Limits of its cluster stay, the other one follows demand, and the next round is right."""
    chance = random.Random(20261128)
    pool_for(operator, agent)
    agent.configure(url=service.url, reclaim="requeue")
    agent.authorize(cluster=HPC)
    site.add_node("k1", K8S, CPUS[K8S])
    for name in ("shared", "kueue-only"):
        site.add_queue(name, {K8S: CPUS[K8S] // 2})
    quiet.add_accounts("shared", "slurm-only")
    clusters = Clusters(operator, agent, quiet, site)
    (tmp_path / "kueue").mkdir()
    kueue = KueueAgent(tmp_path / "kueue", site, service, agent.pool, cluster=K8S)
    processes = {
        HPC: agent.start("--every", "1s", log=tmp_path / "slurm.log"),
        K8S: kueue.start("1s"),
    }
    other = K8S if frozen == HPC else HPC
    asked = {HPC: (0, 0), K8S: (0, 0)}

    def ask():
        """Ask for other numbers of jobs, and return the CPUs that each cluster then uses."""
        for name in CPUS:
            asked[name] = tuple(chance.choice([0, chance.randint(1, 8), 30]) for _ in range(2))
        clusters.ask(
            dict(zip(("shared", "slurm-only"), asked[HPC], strict=True)),
            dict(zip(("shared", "kueue-only"), asked[K8S], strict=True)),
        )
        return {name: min(sum(asked[name]), cpus) for name, cpus in CPUS.items()}

    try:
        until(site.is_orchestrated, seconds=60)
        clusters.ask({"shared": 30, "slurm-only": 3}, {"shared": 2, "kueue-only": 30})
        until(partial(clusters.match, CPUS), seconds=120)
        before = clusters.limits(frozen)
        with Sampler(quiet) as sampler:
            processes[frozen].send_signal(signal.SIGSTOP)
            thawed = time.monotonic() + FROZEN_SECONDS
            for number in range(FROZEN_ROUNDS):
                wanted = ask()
                try:
                    until(partial(clusters.match, {other: wanted[other]}), seconds=120)
                except AssertionError as error:
                    raise AssertionError(f"round {number}: {asked} {clusters.seen}") from error
                assert clusters.limits(frozen) == before
            time.sleep(max(0.0, thawed - time.monotonic()))
            assert clusters.limits(frozen) == before
            path = f"/api/v1/pools/{agent.pool}/clusters/"
            rows = {row["cluster"]: row for row in operator.get(path).body["clusters"]}
            assert (rows[frozen]["stale"], rows[other]["stale"]) == (True, False)
            assert {row["left_at"] for row in rows.values()} == {None}
            processes[frozen].send_signal(signal.SIGCONT)
            seconds = until(partial(clusters.match, wanted), seconds=60)
        print(
            f"{frozen} frozen, {FROZEN_ROUNDS} rounds: right {seconds:.1f} s after it went on;"
            f" at most {clusters.most_used} CPUs in use of {CPUS}, {sampler.samples} samples"
        )
        assert sampler.samples > FROZEN_ROUNDS
        assert sampler.most["cpu"] <= CPUS[HPC]
        assert site.excess == []
        assert all(clusters.most_used[name] <= CPUS[name] for name in CPUS)
    finally:
        for process in processes.values():
            process.send_signal(signal.SIGCONT)
            stop(process, patience_seconds=10)


def freeze(process, clusters):
    """Stop the agent of one cluster for a while: its limits stay, and the other gets what it wants."""
    before = clusters.site.cpus()
    process.send_signal(signal.SIGSTOP)
    try:
        thawed = time.monotonic() + FROZEN_SECONDS
        clusters.ask({"shared": 2, "slurm-only": 30}, {"shared": 12, "kueue-only": 0})
        until(lambda: clusters.agent.run("--once") and running(clusters) == CPUS[HPC], seconds=60)
        time.sleep(max(0.0, thawed - time.monotonic()))
        assert clusters.site.cpus() == before
    finally:
        process.send_signal(signal.SIGCONT)


def running(clusters):
    return sum(clusters.slurm.jobs("RUNNING").values())
