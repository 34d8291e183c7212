"""Jobs queued by two accounts, to a decision, to limits, to the jobs that run, to the ledger."""

from tests.slurm.conftest import decided_tasks, eventually, pool_for


def test_exactly_the_decided_jobs_run(operator, agent, quiet):
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics", "biology")
    agent.run("--once")  # nodes become servers before anybody queues
    assert quiet.limits() == {"physics": "cpu=0,mem=0", "biology": "cpu=0,mem=0"}
    quiet.submit("physics", "--mem=1024", "--partition=big", count=9)
    quiet.submit("biology", "--mem=2048", "--partition=big", count=9)
    agent.run("--once")
    decided = decided_tasks(operator, pool)
    assert sum(decided.values()) == 4
    eventually(lambda: quiet.jobs("RUNNING") == decided)
    quiet.settled()
    assert quiet.jobs("RUNNING") == decided
