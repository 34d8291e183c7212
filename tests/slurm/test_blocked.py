"""Jobs that wait although the decision allows them, and an agent that falls silent, on a real Slurm."""

from launcher.processes import stop
from tests.slurm.conftest import decided_tasks, eventually, pool_for

REASON = "AssocGrpCpuLimit"


def test_a_parents_limit_is_an_event_with_slurms_reason(operator, agent, quiet, tmp_path):
    """A limit that the site set on a parent holds for all children, and the agent leaves it."""
    pool = pool_for(operator, agent)
    quiet.add_accounts("faculty")
    quiet.run("sacctmgr", "-i", "add", "account", "physics", "parent=faculty")
    quiet.run("sacctmgr", "-i", "add", "user", quiet.user, "account=physics")
    quiet.run("sacctmgr", "-i", "modify", "account", "faculty", "set", "GrpTRES=cpu=0")
    quiet.submit("physics", "--partition=small", count=3)
    process = agent.start("--every", "2s", log=tmp_path / "agent.log")
    try:
        blocked = eventually(lambda: events(operator, agent, "enforcement.blocked"), seconds=60)
        assert decided_tasks(operator, pool) == {"physics": 3}
        assert [(event["tenant"], event["payload"]["reason"]) for event in blocked] == [
            ("physics", REASON)
        ]
        (row,) = operator.get(f"{pool}/enforcement/").body["tenants"]
        assert (row["drift"], row["pending_tasks"], row["pending_reason"]) == ({}, 3, REASON)
        assert row["blocked_since"]
        assert quiet.limits()["faculty"] == "cpu=0"
        quiet.run("sacctmgr", "-i", "modify", "account", "faculty", "set", "GrpTRES=cpu=-1")
        eventually(lambda: quiet.jobs("RUNNING") == {"physics": 3})
        eventually(lambda: events(operator, agent, "enforcement.unblocked"), seconds=60)
        (row,) = operator.get(f"{pool}/enforcement/").body["tenants"]
        assert row["blocked_since"] is None
    finally:
        stop(process, patience_seconds=10)
    silent = eventually(lambda: events(operator, agent, "enforcement.silent"), seconds=60)
    assert [event["payload"]["agent"] for event in silent] == ["slurm-lab"]
    agent.run("--once")
    eventually(lambda: events(operator, agent, "enforcement.returned"), seconds=60)
    assert len(events(operator, agent, "enforcement.blocked")) == 1


def events(operator, agent, kind):
    """The pool's events of a kind."""
    found = operator.get("/api/v1/events/?limit=1000").body["results"]
    return [event for event in found if (event["pool"], event["kind"]) == (agent.pool, kind)]
