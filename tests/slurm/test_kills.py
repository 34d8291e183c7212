"""Whatever is killed: limits stay, the agent says who is away, and the next round mends the rest."""

import random
import signal
import time
from itertools import pairwise

from launcher.processes import stop
from tests.examples import thorough
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


def enforced(operator, pool):
    rows = operator.get(f"{pool}/enforcement/").body["tenants"]
    return {row["tenant"]: row["enforced"] for row in rows}


def rendered(operator, pool):
    rows = operator.get(f"{pool}/enforcement/").body["tenants"]
    return {row["tenant"]: row["rendered"] for row in rows}
