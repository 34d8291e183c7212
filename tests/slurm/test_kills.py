"""Whatever is killed: limits stay, the agent says who is away, and the next round mends the rest."""

import os
import random
import signal
import time
from functools import partial
from itertools import pairwise

import pytest

from allocator_agent.slurm.tres import read_limits
from launcher.processes import stop
from tests.examples import long, thorough
from tests.slurm.conftest import NOTHING, UNCHANGED, decided_tasks, eventually, pool_for
from tests.slurm.demand import ACCOUNTS, Demand
from tests.slurm.sampling import Sampler
from tests.slurm.test_rounds import CAPACITY

FEW, ALL = 2, 20


def test_an_agent_killed_at_any_moment_is_mended_by_its_next_round(
    operator, agent, quiet, tmp_path
):
    """20 kills with `--thorough`, 2 without."""
    pool = pool_for(operator, agent)
    quiet.add_accounts(*ACCOUNTS)
    agent.run("--once")
    began = time.monotonic()
    agent.run("--once")
    round_seconds = time.monotonic() - began
    demand, draw = Demand(quiet, 7), random.Random(7)
    with Sampler(quiet) as sampler:
        for _ in range(ALL if thorough() else FEW):
            demand.change()
            victim = agent.start("--once", log=tmp_path / "agent.log")
            time.sleep(draw.uniform(0.1, 1.2) * round_seconds)
            stop(victim, first=signal.SIGKILL)
            agent.run("--once")
            assert enforced(operator, pool) == rendered(operator, pool)
            shown = agent.run("--dry-run").splitlines()
            assert shown[-2:] == [f"To the service: {NOTHING}", UNCHANGED]
    assert all(sampler.most[name] <= most for name, most in CAPACITY.items()), sampler.most


def test_limits_stay_while_the_service_is_away(operator, service, agent, quiet):
    pool = pool_for(operator, agent)
    agent.configure(url=service.url, service="timeout = 2")
    quiet.add_accounts("physics", "biology")
    quiet.submit("physics", "--partition=big", count=5)
    agent.run("--once")
    limits = quiet.limits()
    assert limits == {"physics": "cpu=4,mem=1G", "biology": "cpu=0,mem=0"}
    service.processes["web"].send_signal(signal.SIGKILL)
    service.processes["web"].wait()
    quiet.submit("biology", "--partition=big", count=3)
    assert "does not answer" in agent.run("--once", expect=3)
    assert quiet.limits() == limits
    service.start("web")
    eventually(service.ready, seconds=60)
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"physics": 2, "biology": 2}
    assert quiet.limits() == {"physics": "cpu=2,mem=512M", "biology": "cpu=2,mem=512M"}


@long
def test_slurm_killed_keeps_its_limits_and_the_agent_goes_on(operator, agent, quiet, tmp_path):
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics")
    log = tmp_path / "agent.log"
    running = agent.start("--every", "1s", log=log)
    try:
        eventually(lambda: quiet.limits() == {"physics": "cpu=0,mem=0"})
        quiet.kill_controller()
        assert "failed with" in agent.run("--once", expect=4)
        eventually(lambda: "limits stay" in log.read_text(), seconds=30)
        quiet.start_controller()
        assert quiet.limits() == {"physics": "cpu=0,mem=0"}
        quiet.submit("physics", "--partition=big", count=2)
        eventually(lambda: quiet.limits() == {"physics": "cpu=2,mem=512M"}, seconds=30)
        report = eventually(lambda: operator.get(f"{pool}/enforcement/").body["agents"])[0]
        assert (report["interval"], report["problems"]) == ("PT1S", [])
        said = [line for line in log.read_text().splitlines() if "limits stay" in line]
        # Slurm may fail in two ways while it ends. Each is logged once, not in every round.
        assert all(line != after for line, after in pairwise(said))
    finally:
        assert stop(running) == 0  # SIGTERM ends it between two rounds


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param("slurmctld", signal.SIGKILL, id="slurmctld-killed"),
        pytest.param("slurmctld", signal.SIGSTOP, id="slurmctld-frozen", marks=long),
        pytest.param("slurmdbd", signal.SIGKILL, id="slurmdbd-killed", marks=long),
        pytest.param("slurmdbd", signal.SIGSTOP, id="slurmdbd-frozen", marks=long),
        pytest.param("web", signal.SIGKILL, id="web-killed", marks=long),
        pytest.param("web", signal.SIGSTOP, id="web-frozen"),
    ],
)
def test_fails(operator, service, agent, quiet, tmp_path, name, fault):
    """Slurm or the service fails in the middle of a round: 10 times with `--thorough`, 2 without."""
    pool = pool_for(operator, agent)
    agent.configure(url=service.url, service="timeout = 3")
    quiet.add_accounts(*ACCOUNTS)
    agent.run("--once")
    began = time.monotonic()
    agent.run("--once")
    round_seconds = time.monotonic() - began
    demand, draw, codes = Demand(quiet, 11), random.Random(11), []
    restart = {
        "slurmctld": quiet.start_controller,
        "slurmdbd": quiet.start_accounting,
        "web": partial(service.start, "web"),
    }[name]
    processes = service.processes if name == "web" else quiet.processes
    with Sampler(quiet) as sampler:
        for _ in range(10 if thorough() else 2):
            demand.change()
            log = tmp_path / f"agent-{len(codes)}.log"
            round_ = agent.start("--once", log=log)
            time.sleep(draw.uniform(0.2, 1) * round_seconds)
            os.killpg(processes[name].pid, fault)
            try:
                time.sleep(4)
            finally:
                if fault == signal.SIGSTOP:
                    os.killpg(processes[name].pid, signal.SIGCONT)
                else:
                    processes[name].wait()
                    restart()
            codes.append(round_.wait(timeout=120))
            assert codes[-1] in (0, 3 if name == "web" else 4), log.read_text()
            eventually(service.ready, seconds=60)
            eventually(quiet.answers, seconds=60)
            agent.run("--once")
            assert enforced(operator, pool) == rendered(operator, pool)
            assert quiet.limits_in_force() == in_mebibytes(quiet.limits())
            assert agent.run("--dry-run").splitlines()[-1] == UNCHANGED
    print(f"\n{name}: rounds ended with {codes}")
    assert all(sampler.most[resource] <= most for resource, most in CAPACITY.items()), sampler.most


def in_mebibytes(limits):
    """Limits as slurmctld prints them."""
    rows = {account: read_limits(tres) for account, tres in limits.items()}
    return {name: ",".join(f"{n}={most}" for n, most in row.items()) for name, row in rows.items()}


def enforced(operator, pool):
    rows = operator.get(f"{pool}/enforcement/").body["tenants"]
    return {row["tenant"]: row["enforced"] for row in rows}


def rendered(operator, pool):
    rows = operator.get(f"{pool}/enforcement/").body["tenants"]
    return {row["tenant"]: row["rendered"] for row in rows}
