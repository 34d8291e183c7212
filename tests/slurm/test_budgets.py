"""A monthly budget in a real Slurm: GrpTRESMins of the group's account, and what it does to jobs."""

from tests.slurm.conftest import UNCHANGED, eventually
from tests.slurm.test_groups import ANYWHERE, three_levels


def minutes(cluster):
    columns = "format=account,user,grptresmins"
    rows = cluster.run("sacctmgr", "-nP", "show", "association", columns).splitlines()
    found = (line.split("|") for line in rows)
    return {account: tres for account, user, tres in found if tres and not user}


def waiting(cluster):
    return set(cluster.run("squeue", "--noheader", "--states=PENDING", "--format=%r").splitlines())


def test_a_budget_of_a_group_holds_jobs_that_would_exceed_it(operator, agent, quiet):
    pool = three_levels(operator, agent, quiet)
    agent.run("--once")
    assert minutes(quiet) == {}
    quiet.run("sacctmgr", "-i", "modify", "account", "genes", "set", "GrpTRESMins=mem=900000")
    # Half an hour of a CPU in the month. A job reserves its time limit.
    body = {"group": "labs", "resource": "cpu", "amount": "0.5", "then": "stop"}
    made = operator.post(f"{pool}/budgets/", body)
    assert made.status == 201, made.body
    quiet.submit("vision", *ANYWHERE, "--time=20", count=1)
    quiet.submit("speech", *ANYWHERE, "--time=20", count=1)
    quiet.submit("genomics", *ANYWHERE, "--time=20", count=1)
    shown = agent.run("--once")
    assert "cpu minutes unlimited -> 30" in shown
    assert minutes(quiet) == {"labs": "cpu=30", "genes": "mem=900000M"}
    eventually(lambda: sum(quiet.jobs("RUNNING").values()) == 2)
    eventually(lambda: waiting(quiet) == {"AssocGrpCPUMinutesLimit"})
    assert UNCHANGED in agent.run("--dry-run")

    budget = f"{pool}/budgets/{made.body['id']}/"
    operator.patch(budget, {"amount": "1"})
    agent.run("--once")
    assert minutes(quiet)["labs"] == "cpu=60"
    eventually(lambda: sum(quiet.jobs("RUNNING").values()) == 3)

    tag = operator.get(budget).headers["ETag"]
    assert operator.request("DELETE", budget, headers={"If-Match": tag}).status == 204
    agent.run("--once")
    assert minutes(quiet) == {"genes": "mem=900000M"}
