"""Taking back with a minimum, with notice and with a limit, on the real Slurm."""

import time

from tests.examples import long
from tests.slurm.conftest import eventually, pool_for
from tests.slurm.test_blocked import events

SMALL = ("--partition=big", "--mem=1024")
KINDS = ("enforcement.notice", "enforcement.taken_back")


def change(operator, pool, **fields):
    current = operator.get(f"{pool}/")
    tag = {"If-Match": current.headers["ETag"]}
    return operator.request("PATCH", f"{pool}/", fields, headers=tag).body


def rows(operator, pool):
    found = operator.get(f"{pool}/enforcement/").body["tenants"]
    return {row["tenant"]: row["ending"] for row in found}


def test_jobs_get_notice_and_end_after_it_and_an_agent_that_starts_again_knows(
    operator, agent, quiet, service, tmp_path
):
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics", "biology")
    caught = tmp_path / "caught"
    script = f"trap 'echo caught >> {caught}' USR1; while :; do sleep 0.2; done"
    caught.parent.chmod(0o777)
    agent.configure(url=service.url, reclaim="requeue", slurm="notice_signal = USR1")
    quiet.submit("physics", *SMALL, count=4, script=script)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 4})
    change(operator, pool, notice="PT8S", churn=1, decision_interval="PT5S")
    quiet.submit("biology", *SMALL, count=4)

    shown = agent.run("--once")
    assert shown.count("gets notice, ends after") == 2
    assert quiet.jobs("RUNNING") == {"physics": 4}
    begin = time.monotonic()
    ending = rows(operator, pool)["physics"]
    assert [(each["heir"], each["ended"], each["tasks"]) for each in ending] == [
        ("biology", False, 1)
    ] * 2
    eventually(lambda: caught.exists() and len(caught.read_text().splitlines()) == 2)
    # Each run is a process of its own: the notices are those of the service.
    assert "gets notice" not in agent.run("--once")
    assert quiet.jobs("RUNNING") == {"physics": 4}
    time.sleep(max(0.0, begin + 9 - time.monotonic()))
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING").get("physics") == 3)  # one in an interval
    assert [each["ended"] for each in rows(operator, pool)["physics"]] == [False, True]
    change(operator, pool, churn=None)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 2, "biology": 2})
    agent.run("--once")
    assert rows(operator, pool) == {"physics": [], "biology": []}
    assert [len(events(operator, agent, kind)) for kind in KINDS] == [1, 2]


@long
def test_no_job_ends_before_it_has_run_for_the_minimum(operator, agent, quiet, service):
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics", "biology")
    agent.configure(url=service.url, reclaim="requeue")
    quiet.submit("physics", *SMALL, count=4)
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 4})
    began = time.monotonic()
    change(operator, pool, minimum_run="PT20S")
    quiet.submit("biology", *SMALL, count=4)
    agent.run("--once")
    quiet.settled(seconds=4)
    assert quiet.jobs("RUNNING") == {"physics": 4}
    time.sleep(max(0.0, began + 22 - time.monotonic()))
    agent.run("--once")
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 2, "biology": 2})
