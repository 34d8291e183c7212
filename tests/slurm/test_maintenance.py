"""Reservations of the site: what they hold is no capacity of a decision while they are in force."""

from tests.slurm.conftest import decided_tasks, eventually, pool_for


def test_reserved_nodes_and_cores_leave_the_decision_until_the_reservation_ends(
    operator, agent, quiet
):
    pool = pool_for(operator, agent)
    quiet.add_accounts("physics")
    quiet.submit("physics", "--partition=small", "--time=5", count=13)
    reserve(
        quiet, "later", "StartTime=now+1hour", "Duration=60", "Nodes=cpu-1", "Flags=IGNORE_JOBS"
    )
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"physics": 12}
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 12})

    begin = ("StartTime=now", "Duration=5", "Flags=MAINT,IGNORE_JOBS")
    reserve(quiet, "upgrade", *begin, "Nodes=cpu-2")
    reserve(
        *(quiet, "course", "StartTime=now", "Duration=5", "Flags=IGNORE_JOBS"),
        *("Nodes=cpu-1", "CoreCnt=2", "PartitionName=small"),
    )
    shown = agent.run("--once")
    assert "~ server cpu-2" in shown, shown
    assert decided_tasks(operator, pool) == {"physics": 4}
    assert quiet.limits() == {"physics": "cpu=4,mem=1G"}
    servers = {row["name"]: row for row in operator.pages(f"{pool}/servers/")}
    assert {name: row["state"] for name, row in servers.items()} == {
        "mem-1": "active",
        "cpu-1": "active",
        "cpu-2": "draining",
    }
    assert servers["cpu-1"]["capacity"]["cpu"] == 4
    assert [servers[name]["labels"].get("reservation") for name in sorted(servers)] == [
        "course",
        "upgrade",
        None,
    ]

    quiet.run("scontrol", "delete", "ReservationName=course")
    quiet.run("scontrol", "update", "ReservationName=upgrade", "EndTime=now+2")
    eventually(lambda: "upgrade" not in quiet.run("scontrol", "show", "reservation"), seconds=90)
    agent.run("--once")
    assert decided_tasks(operator, pool) == {"physics": 12}
    labels = [row["labels"] for row in operator.pages(f"{pool}/servers/")]
    assert not any("reservation" in each for each in labels)


def reserve(slurm, name, *options):
    slurm.run(
        *("scontrol", "create", "reservation", f"ReservationName={name}", "Users=root", *options)
    )
