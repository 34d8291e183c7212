"""`allocator-agent check` on a real Slurm, with each requirement taken away."""

import os
import re
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from allocator_agent.checking import check
from allocator_agent.configuration import read_configuration
from allocator_agent.service import Service
from allocator_agent.slurm.checking import SlurmCheck
from allocator_agent.slurm.commands import Commands
from launcher.processes import stop
from tests.examples import long
from tests.slurm.conftest import eventually, pool_for

OTHER = "daemon"  # a user that every Debian has, and that Slurm does not know


@pytest.fixture
def ready(operator, agent, quiet):
    """The agent of a pool whose accounts exist."""
    pool_for(operator, agent)
    quiet.add_accounts("physics", "biology")
    return agent


@contextmanager
def controller_with(cluster, old, new):
    """Run slurmctld with another line of slurm.conf."""
    before = (cluster.state / "slurm.conf").read_text()
    assert old in before

    def restart(text):
        cluster.configure_with(text)
        stop(cluster.processes["slurmctld"], patience_seconds=10)
        cluster.start_controller()
        eventually(cluster.idle)

    try:
        restart(before.replace(old, new))
        yield
    finally:
        restart(before)


def lines(text, state):
    """Return the findings of a state, without the state."""
    return [line[11:] for line in text.splitlines() if line.startswith(f"  {state} ")]


def test_nothing_is_missing_and_nothing_is_written(operator, ready, quiet):
    pool = f"/api/v1/pools/{ready.pool}/"
    before = operator.get(pool).body
    shown = ready.run("check")
    assert shown.splitlines()[-1] == "Nothing is missing."
    assert lines(shown, "missing") == lines(shown, "note") == []
    for text in (
        "scontrol, squeue, sacctmgr, sacct answer",
        "accounting counts cpu, memory",
        "3 nodes, 0 of them out of service",
        "2 become members in the first round: biology, physics",
    ):
        assert text in lines(shown, "ok")
    assert operator.get(pool).body == before
    assert [*operator.pages(f"{pool}servers/")] == [*operator.pages(f"{pool}members/")] == []
    assert quiet.limits() == {"physics": "", "biology": ""}


def test_what_a_check_passes_a_round_obeys(ready, quiet):
    ready.run("check")
    ready.run("--once")
    assert quiet.limits() == {"physics": "cpu=0,mem=0", "biology": "cpu=0,mem=0"}
    assert "each of 2 members has its account" in ready.run("check")


@pytest.mark.parametrize("option", ["--once", "--dry-run", "--every=5s"])
def test_a_check_is_no_round(ready, option):
    assert "leave out --once, --every and --dry-run" in ready.run("check", option, expect=2)


def test_a_wrong_configuration_ends_with_2(ready, service):
    ready.configure(url=service.url, slurm="bim = /usr/bin")
    assert "[slurm] bim is unknown" in ready.run("check", expect=2)


def test_a_service_that_is_away_ends_with_3_and_slurm_is_checked_nevertheless(ready):
    ready.configure(url="http://127.0.0.1:1")
    shown = ready.run("check", expect=3)
    assert "http://127.0.0.1:1 does not answer" in lines(shown, "missing")[0]
    assert "3 nodes, 0 of them out of service" in lines(shown, "ok")


@pytest.mark.parametrize(
    ("scope", "missing"),
    [
        (("tenant", "--tenant", "someone"), "the key may not write to pool"),
        (("agent", "--pool", "ANOTHER"), "cannot be read: There is no such pool."),
    ],
    ids=["scope", "pool"],
)
def test_another_key_is_missing(operator, ready, service, scope, missing):
    another = f"{ready.pool}-2"
    resources, policy = [{"name": "cpu", "unit": "CPU"}], {"name": "drfh"}
    body = {"slug": another, "name": "2", "resources": resources, "policy": policy}
    operator.post("/api/v1/pools/", body)
    operator.request("POST", "/api/v1/tenants/", {"slug": "someone", "name": "Someone"})
    operator.request("PUT", f"/api/v1/pools/{ready.pool}/members/someone/", {"weight": 1})
    words = [another if word == "ANOTHER" else word for word in scope]
    create = ("apikey", "create", "--name", another, "--scope", *words)
    ready._environment["ALLOCATOR_KEY"] = service.manage(*create)
    shown = ready.run("check", expect=1)
    assert missing in lines(shown, "missing")[0]
    assert f"apikey create --scope agent --pool {ready.pool} --name slurm-lab" in shown


def test_a_key_that_may_do_more_is_noted(ready, service):
    ready._environment["ALLOCATOR_KEY"] = service.manage(
        "apikey", "create", "--scope", "operator", "--name", "too-much"
    )
    assert lines(ready.run("check"), "note") == ["the key may do more than an agent needs"]


def test_clocks_that_differ_are_missing(ready, quiet, service, monkeypatch):
    for name, value in {**quiet.environment, **ready._environment}.items():
        monkeypatch.setenv(name, value)

    def findings(offset):
        def clock():
            return time.time() + offset

        configuration = read_configuration(ready.file)
        scheduler = SlurmCheck(configuration, Commands(), clock=clock)
        found = check(configuration, ready.file, Service(configuration), scheduler, clock=clock)
        return lines("\n".join(line for each in found for line in each.lines()), "missing")

    assert findings(0) == findings(1) == findings(-1) == []
    for offset, direction in ((60, "behind"), (-60, "ahead of")):
        service_clock, slurm_clock = findings(offset)
        assert service_clock.startswith("the clock of the service is ")
        assert slurm_clock.startswith("the clock of slurmctld is ")
        for text in (service_clock, slurm_clock):
            difference = re.search(r" is (\d+) s (behind|ahead of) this", text)
            assert difference[2] == direction
            assert 57 <= int(difference[1]) <= 61


@pytest.mark.parametrize("program", ["scontrol", "squeue", "sacctmgr", "sacct"])
def test_a_missing_command_ends_with_4(ready, service, quiet, tmp_path, program):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in {"scontrol", "squeue", "sacctmgr", "sacct"} - {program}:
        (folder / name).symlink_to(quiet.prefix / "usr/bin" / name)
    ready.configure(url=service.url, slurm=f"bin = {folder}")
    (missing, *_) = lines(ready.run("check", expect=4), "missing")
    assert missing == f"there is no {folder / program}: set [slurm] bin"


def test_a_controller_that_is_away_ends_with_4(ready, quiet):
    quiet.kill_controller()
    shown = ready.run("check", expect=4)
    assert "scontrol show failed" in lines(shown, "missing")[0]
    assert "the key may import" in shown


@long
@pytest.mark.parametrize(
    ("enforced", "expect", "missing", "notes"),
    [
        ("", 1, ["associations and limits"], 0),
        ("associations,qos", 1, ["limits"], 0),
        ("limits", 0, [], 2),
        ("limits,qos,safe", 0, [], 0),
    ],
)
def test_enforcement_is_checked(ready, quiet, enforced, expect, missing, notes):
    asked = "AccountingStorageEnforce=limits,qos,safe"
    with controller_with(quiet, asked, f"AccountingStorageEnforce={enforced}" if enforced else ""):
        shown = ready.run("check", expect=expect)
    assert [line for line in lines(shown, "missing") if "AccountingStorageEnforce" in line] == [
        f"AccountingStorageEnforce lacks {words}: Slurm ignores limits of accounts"
        for words in missing
    ]
    assert len(lines(shown, "note")) == notes


def test_a_resource_that_accounting_does_not_count_is_missing(operator, agent, quiet):
    resources = [{"name": name, "unit": ""} for name in ("cpu", "gpu", "fpga")]
    pool_for(operator, agent, resources=resources)
    shown = agent.run("check", expect=1)
    assert lines(shown, "missing") == [
        "accounting does not count fpga, so Slurm has no limit for it"
    ]
    assert "add gres/fpga to AccountingStorageTRES" in shown


def test_a_qos_that_replaces_limits_of_accounts_is_missing(ready, quiet):
    """Its jobs run beyond the account's limit, which is why it is missing."""
    quiet.run("sacctmgr", "-i", "add", "qos", "wide", "GrpTRES=cpu=50")
    try:
        quiet.run("sacctmgr", "-i", "modify", "account", "where", "account=physics", "set",
                  "qos+=wide", "GrpTRES=cpu=1")  # fmt: skip
        quiet.submit("physics", count=2)
        quiet.submit("physics", "--qos=wide", count=2)
        eventually(lambda: quiet.jobs("RUNNING") == {"physics": 3})
        shown = ready.run("check", expect=1)
        assert lines(shown, "missing") == [
            "QOS wide limits cpu, so its jobs ignore that limit of accounts"
        ]
        assert (
            "MaxTRESPerUser of the QOS replaces no limit" in shown
        )  # no command: the cap is the site's
        quiet.run("sacctmgr", "-i", "modify", "qos", "wide", "set", "GrpTRES=cpu=-1")
        assert "no QOS has limits that replace" in ready.run("check")
    finally:
        quiet.run("scancel", f"--user={quiet.user}")
        quiet.run("sacctmgr", "-i", "delete", "qos", "wide")


@long
def test_a_user_needs_rights_and_has_them_from_the_remedies(ready, quiet, service):
    """An operator of Slurm runs whole rounds. Limits by partition need an administrator."""
    if os.geteuid():
        pytest.skip("only root can run the agent as another user")

    def refused(level):
        shown = ready.run("check", expect=1, user=OTHER)
        missing = next(line for line in lines(shown, "missing") if "may not change" in line)
        assert missing.endswith(f"its administrator level is {level}")
        remedy = next(line for line in shown.splitlines() if "adminlevel" in line).split("-> ")[1]
        quiet.run(*remedy.split())
        shown = ready.run("check", user=OTHER)
        assert f"user {OTHER} may change accounts, reservations and jobs, as " in shown

    ready.file = Path(quiet.state) / "agent.ini"
    ready.configure(url=service.url, reclaim="requeue")
    try:
        refused("None")
        quiet.submit("physics", "--partition=small", count=3)
        ready.run("--once", user=OTHER)
        assert quiet.limits() == {"physics": "cpu=3,mem=768M", "biology": "cpu=0,mem=0"}
        eventually(lambda: quiet.jobs("RUNNING") == {"physics": 3})
        ready.configure(url=service.url, reclaim="requeue", slurm="classes = yes")
        shown = ready.run("--once", expect=4, user=OTHER)
        assert "sacctmgr load failed" in shown
        refused("Operator")
        ready.run("--once", user=OTHER)
    finally:
        quiet.run("sacctmgr", "-i", "delete", "user", OTHER, check=False)
        ready.file.unlink()


def test_accounts_that_do_not_fit_the_pool_are_listed(operator, ready, quiet, service):
    pool = f"/api/v1/pools/{ready.pool}"
    for tenant in ("faculty", "chemistry"):
        operator.request("POST", "/api/v1/tenants/", {"slug": tenant, "name": tenant})
        operator.request("PUT", f"{pool}/members/{tenant}/", {"weight": 1})
    quiet.run("sacctmgr", "-i", "add", "account", "faculty")
    quiet.run("sacctmgr", "-i", "add", "account", "geology", "parent=faculty")
    quiet.run("sacctmgr", "-i", "add", "account", "geo.logy,geo_logy")
    ready.configure(url=service.url, register_tenants="no")
    shown = ready.run("check", expect=1)
    assert lines(shown, "missing") == [
        "members without account: chemistry",
        "account faculty has others below it, so it cannot be a member",
        "accounts whose tenant has another already: geo_logy",
    ]
    assert lines(shown, "note") == [
        "without a limit, as they are not members: biology, geo-logy, geology, physics"
    ]
    quiet.run("sacctmgr", "-i", "delete", "account", "geo_logy")
    quiet.run("sacctmgr", "-i", "add", "account", "chemistry")
    member = f"{pool}/members/faculty/"
    tag = {"If-Match": operator.get(member).headers["ETag"]}
    assert operator.request("DELETE", member, headers=tag).status == 204
    shown = ready.run("check")
    assert "accounts with others below them and no limit of their own: faculty" in shown


def test_groups_are_compared_with_the_tree(operator, ready, quiet):
    groups = f"/api/v1/pools/{ready.pool}/groups/"
    for name in ("faculty", "physics"):
        operator.post(groups, {"slug": name, "name": name})
    quiet.run("sacctmgr", "-i", "add", "account", "faculty")
    quiet.run("sacctmgr", "-i", "add", "account", "geology", "parent=faculty")
    shown = ready.run("check")
    assert "accounts of groups, limited to the sum below them: faculty" in lines(shown, "ok")
    assert "accounts of groups without accounts below them: physics" in lines(shown, "note")


@long
def test_partitions_that_overlap_are_missing_with_limits_by_partition(ready, quiet, service):
    quiet.run("scontrol", "create", "PartitionName=all", "Nodes=mem-1,cpu-1")
    try:
        ready.run("check")
        ready.configure(url=service.url, slurm="classes = yes")
        (missing,) = lines(ready.run("check", expect=1), "missing")
        assert missing.startswith("partitions overlap")
    finally:
        quiet.run("scontrol", "delete", "PartitionName=all")
