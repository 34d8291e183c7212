"""The table: jobs decided and jobs that run, round by round, without enforcement and with it."""

from tests.examples import long
from tests.slurm.conftest import decided_by_partition, pool_for
from tests.slurm.demand import ACCOUNTS, Demand, counted

ROUNDS = 8
SEED = 3

pytestmark = long


def test_jobs_decided_and_run_without_and_with_enforcement(operator, service, agent, quiet):
    quiet.add_accounts(*ACCOUNTS)
    without = []
    demand = Demand(quiet, SEED)
    for _ in range(ROUNDS):
        demand.change()
        quiet.settled(seconds=12)
        without.append(by_account(counted(quiet)[0]))
    quiet.clear()

    quiet.add_accounts(*ACCOUNTS)
    pool = pool_for(operator, agent)
    agent.configure(url=service.url, slurm="classes = yes", reclaim="requeue")
    agent.run("--once")
    demand = Demand(quiet, SEED)
    decided, enforced = [], []
    for _ in range(ROUNDS):
        demand.change()
        agent.run("--once")
        decided.append(by_account(decided_by_partition(operator, pool)))
        quiet.settled(seconds=12)
        enforced.append(by_account(counted(quiet)[0]))

    print("\nround  " + "".join(f"{name:>27}" for name in ACCOUNTS))
    print("       " + "   decided  without     with" * len(ACCOUNTS))
    for number, rows in enumerate(zip(decided, without, enforced, strict=True), start=1):
        cells = "".join(f"{row[name]:>9}" for name in ACCOUNTS for row in rows)
        print(f"{number:>5}  {cells}")
    assert all(
        run[name] <= most[name]
        for run, most in zip(enforced, decided, strict=True)
        for name in ACCOUNTS
    )
    assert without != decided


def by_account(counts):
    return {name: sum(n for (who, _), n in counts.items() if who == name) for name in ACCOUNTS}
