"""Which nodes are held for jobs of several nodes, and when no more."""

from dataclasses import replace
from fractions import Fraction

from allocator_agent.model import Job, Node
from allocator_agent.slurm.holds import HeldCluster, plan_holds
from allocator_agent.slurm.reading import Partition, Reservation

MIB = 2**20
PREFIX, NOW = "allocator-lab_hold_", 1_000_000


def node(name, cpus=4, *, draining=False, **labels):
    capacity = {"cpu": Fraction(cpus), "memory": Fraction(4096 * MIB)}
    return Node(name, capacity, labels, draining)


def job(number, account="mpi", *, tasks=4, cpu=2, reason="Resources", **more):
    demand = {"cpu": Fraction(cpu), "memory": Fraction(256 * MIB)}
    more = {"running": False, "partition": "all", "per_server": 1, **more}
    return Job(str(number), account, demand, tasks=tasks, reason=reason, **more)


def gang(tasks=1, *, servers="n1 n2 n3 n4", count=4, cpu=2, shared=True, **more):
    pieces = [{"count": count, "limits": {"cpu": cpu, "mem": 256}}]
    return {
        "kind": "gang", "tenant": "mpi", "workload": "lab/any/x", "tasks": tasks, "pieces": pieces,
        "per_server": 1, "together": None, "classes": [],
        "servers": [
            {"name": name, "pieces": [1], "shared": shared} for name in servers.split()
        ],
        **more,
    }  # fmt: skip


NODES = [node(f"n{number}") for number in range(1, 5)]
NODES_OF_A_CLUSTER = [node(f"n{number}", cluster="lab") for number in range(1, 5)]


def plan(
    objects,
    jobs,
    *,
    nodes=NODES,
    present=(),
    reserved=None,
    threads=None,
    restricted=(),
    idle="",
    partitions=None,
):
    """Plan for a cluster of which jobs have all of the nodes that are not idle."""
    allocated = {each.name: each.capacity for each in nodes if each.name not in idle.split()}
    cluster = HeldCluster(
        nodes,
        present,
        reserved or {},
        threads or {},
        allocated,
        partitions or {},
        PREFIX,
        "lab/",
        lambda asks: asks.id in restricted,
        NOW,
    )
    return plan_holds(objects, jobs, {"mpi": "mpi", "stream": "stream"}, cluster)


def reservation(number, nodes):
    return Reservation(f"{PREFIX}{number}", 0, 10, "mpi", "all", 8, tuple(nodes.split()))


def test_nodes_of_the_decision_are_held_for_a_job_that_waits_for_nodes():
    runs = job(2, "stream", tasks=1, cpu=1, running=True, nodes=("n3",))
    found = plan([gang()], [job(1), runs])
    (hold,) = found.made
    assert (hold.name, hold.jobs) == (f"{PREFIX}1", ("1",))
    assert hold.cores == {"n1": 2, "n2": 2, "n3": 2, "n4": 2}
    assert hold.beside == {"stream": 1}
    assert found.entered == found.waiting["mpi"] == [hold]
    assert [line.strip() for line in hold.shown(is_new=True).lines()] == [
        f"+ reservation {PREFIX}1",
        "account mpi",
        "cores 2 of n1, 2 of n2, 2 of n3, 2 of n4",
        "held for job 1",
        "jobs that run there: 1 of stream",
    ]


def test_a_node_that_the_decision_gives_to_the_job_alone_is_held_as_a_whole():
    (hold,) = plan([gang(shared=False)], [job(1)]).made
    assert set(hold.cores.values()) == {4}
    # Slurm counts cores, of which each may have two CPUs.
    (hold,) = plan([gang()], [job(1)], threads={"n1": 2}).made
    assert list(hold.cores.values()) == [1, 2, 2, 2]


def test_nothing_is_held_for_what_waits_for_something_else_or_is_not_decided():
    for reason in ("AssocGrpCpuLimit", "", "Dependency"):
        assert plan([gang()], [job(1, reason=reason)]).made == []
    assert plan([gang(tasks=0)], [job(1)]).made == []
    assert plan([], [job(1)]).made == []
    other = gang(workload="by-hand")  # a workload that is not the agent's
    assert plan([other], [job(1)]).made == []
    assert plan([gang(classes=["big"])], [job(1)]).made == []


def test_a_job_that_slurm_does_not_look_at_is_held_for_after_a_while():
    for eligible, held in ((NOW - 10, 1), (NOW - 9, 0), (NOW + 60, 0), (0, 0)):
        waits = job(1, reason="", eligible=eligible)
        assert len(plan([gang()], [waits]).made) == held


def test_nothing_is_held_for_a_job_that_chooses_its_nodes():
    """The decision knows neither features nor reservations: its nodes may never be theirs."""
    found = plan([gang()], [job(1)], restricted=["1"])
    assert (found.made, found.problems) == ([], {})
    assert plan([gang()], [job(1, reservation="maintenance")]).entered == []


def test_nodes_are_held_for_jobs_of_the_types_of_the_workload_alone():
    a100 = (("gres.gpu", ("a100",)),)
    typed = gang(workload="lab/any,gres.gpu=a100/x")
    assert plan([typed], [job(1, selects=a100)]).made[0].jobs == ("1",)
    assert plan([typed], [job(1)]).made == plan([gang()], [job(1, selects=a100)]).made == []
    # A pool that counts types has them in the pieces, and no label in the name.
    counted = gang(pieces=[{"count": 4, "limits": {"cpu": 2, "gres/gpu:a100": 1}}])
    demand = {"cpu": Fraction(2), "gpu_a100": Fraction(1)}
    waits = replace(job(1, selects=a100), demand=demand)
    assert plan([counted], [waits]).made[0].jobs == ("1",)
    assert plan([counted], [job(1, selects=a100)]).made == []


def test_the_partition_is_one_of_the_jobs_that_has_the_nodes():
    nodes = [node(f"n{number}", partition="b") for number in range(1, 5)]
    assert plan([gang()], [job(1, partition="a,b")], nodes=nodes).made[0].partition == "b"
    assert plan([gang()], [job(1, partition="a,c")], nodes=nodes).made[0].partition == "a"


def test_only_as_many_jobs_as_are_decided_and_do_not_run():
    running = job(9, running=True, nodes=("n1", "n2", "n3", "n4"))
    assert plan([gang()], [running, job(1)]).made == []
    two = gang(2, servers="n1 n2 n3 n4 n5 n6 n7 n8")
    nodes = [node(f"n{number}") for number in range(1, 9)]
    (hold,) = plan([two], [running, job(1), job(2)], nodes=nodes).made
    assert (hold.jobs, list(hold.cores)) == (("1",), ["n5", "n6", "n7", "n8"])


def test_a_job_that_is_larger_or_smaller_is_of_another_workload():
    for other in (job(1, tasks=3), job(1, cpu=1)):
        assert plan([gang()], [other]).made == []


def test_a_hold_is_kept_until_the_job_starts_whatever_later_decisions_place():
    there = [reservation(1, "n1 n2 n3 n4")]
    waits = job(1, reservation=f"{PREFIX}1", reason="Reservation")
    nodes = [node(f"n{number}") for number in range(1, 9)]
    found = plan([gang(servers="n5 n6 n7 n8")], [waits], nodes=nodes, present=there)
    assert (found.made, found.entered, found.released) == ([], [], [])
    assert list(found.waiting["mpi"][0].cores) == ["n1", "n2", "n3", "n4"]


def test_a_job_that_was_moved_to_another_reservation_stays_there():
    there = [reservation(1, "n1 n2 n3 n4")]
    found = plan([gang()], [job(1, reservation="maintenance")], present=there)
    assert (found.entered, [each.name for each in found.released]) == ([], [there[0].name])


def test_a_hold_that_no_job_was_put_into_is_entered():
    """As by an agent that was killed between the two commands."""
    found = plan([gang()], [job(1)], present=[reservation(1, "n1 n2 n3 n4")])
    assert (found.made, [hold.jobs for hold in found.entered]) == ([], [("1",)])


def test_a_hold_ends_when_the_job_runs_is_gone_or_is_decided_no_more():
    there = [reservation(1, "n1 n2 n3 n4")]
    name = there[0].name
    running = job(1, running=True, reservation=name, nodes=("n1", "n2", "n3", "n4"))
    (release,) = plan([gang()], [running], present=there, reserved={name: ["1"]}).released
    assert (release.jobs, release.reason) == (("1",), "job 1 runs")
    (release,) = plan([gang()], [], present=there).released
    assert (release.jobs, release.reason) == ((), "no job names it")
    waits = job(1, reservation=name)
    (release,) = plan([], [waits], present=there, reserved={name: ["1"]}).released
    assert (release.jobs, release.reason) == (("1",), "job 1 no longer needs it")


def test_a_hold_moves_when_a_node_of_it_drains():
    there = [reservation(1, "n1 n2 n3 n4")]
    nodes = [node("n1", draining=True), *NODES[1:], node("n5")]
    waits = job(1, reservation=there[0].name)
    decided = gang(servers="n2 n3 n4 n5")
    found = plan([decided], [waits], nodes=nodes, present=there, reserved={there[0].name: ["1"]})
    assert ([each.name for each in found.released], found.made) == ([there[0].name], [])
    assert found.problems == {}
    (hold,) = plan([decided], [job(1)], nodes=nodes).made
    assert list(hold.cores) == ["n2", "n3", "n4", "n5"]


def test_a_hold_moves_when_another_job_of_the_workload_started_on_a_node_of_it():
    """Slurm chose n1 and n3 for job 1, just before the nodes of both jobs were held."""
    there = [reservation(2, "n3 n4")]
    running = job(1, tasks=2, cpu=4, running=True, nodes=("n1", "n3"))
    waits = job(2, tasks=2, cpu=4, reservation=there[0].name)
    decided = gang(2, count=2, cpu=4, shared=False)
    found = plan([decided], [running, waits], present=there, reserved={there[0].name: ["2"]})
    assert ([each.name for each in found.released], found.made) == ([there[0].name], [])
    assert found.problems == {}
    waits = job(2, tasks=2, cpu=4)
    (hold,) = plan([decided], [running, waits]).made
    assert list(hold.cores) == ["n2", "n4"]
    # A node that both were decided on has room for both.
    decided["servers"] = [{"name": name, "pieces": [2], "shared": False} for name in ("n3", "n4")]
    found = plan(
        [decided], [running, job(2, tasks=2, cpu=4, reservation=there[0].name)], present=there
    )
    assert (found.released, found.made) == ([], [])


def test_a_hold_moves_to_nodes_that_have_room_while_its_own_have_none():
    """Jobs of days run on n1 and n2, and nothing may start on n3 and n4, which are free."""
    there = [reservation(1, "n1 n2")]
    held = {"present": there, "reserved": {there[0].name: ["1"]}}
    decided = gang(servers="n1 n2", count=2, cpu=4)
    waits = job(1, tasks=2, cpu=4, reservation=there[0].name)
    found = plan([decided], [waits], **held, idle="n3 n4")
    (release,), (hold,) = found.released, found.made
    assert (release.name, release.jobs) == (there[0].name, ("1",))
    assert release.reason == "other nodes have room for job 1"
    assert (hold.name, hold.cores) == (there[0].name, {"n3": 4, "n4": 4})
    assert found.entered == found.waiting["mpi"] == [hold]
    # With one of its own: what is free there already is not given up.
    (hold,) = plan([decided], [waits], **held, idle="n2 n4").made
    assert list(hold.cores) == ["n2", "n4"]
    # Room that is none: too few, its own are free, out of service, reserved, or unlike its own.
    assert plan([decided], [waits], **held, idle="n3").made == []
    assert plan([decided], [waits], **held, idle="n1 n2 n3 n4").made == []
    nodes = [*NODES[:3], node("n4", draining=True)]
    assert plan([decided], [waits], **held, idle="n3 n4", nodes=nodes).made == []
    other = Reservation("maintenance", 0, 1, "", "", 0, ("n4",))
    held["present"] = [*there, other]
    assert plan([decided], [waits], **held, idle="n3 n4").made == []
    held["present"] = there
    nodes = [*NODES[:3], node("n4", partition="other")]
    assert plan([decided], [waits], **held, idle="n3 n4", nodes=nodes).made == []
    some = {"all": Partition(("all",), 4, 12, frozenset({"n1", "n2", "n3"}))}
    assert plan([decided], [waits], **held, idle="n3 n4", partitions=some).made == []
    nodes = [node(f"n{number}", switch="ab"[number > 3]) for number in range(1, 5)]
    together = {**decided, "together": "switch"}
    waits = replace(waits, together="switch")
    assert plan([together], [waits], **held, idle="n3 n4", nodes=nodes).made == []


def test_two_jobs_never_move_to_the_same_nodes():
    there = [reservation(1, "n1 n2"), reservation(2, "n3 n4")]
    nodes = [node(f"n{number}") for number in range(1, 8)]
    decided = gang(2, servers="n1 n2 n3 n4", count=2, cpu=4)
    waits = [job(n, tasks=2, cpu=4, reservation=each.name) for n, each in enumerate(there, 1)]
    found = plan([decided], waits, nodes=nodes, present=there, idle="n5 n6 n7")
    (hold,) = found.made
    assert (hold.jobs, list(hold.cores)) == (("1",), ["n5", "n6"])
    assert [each.jobs for each in found.waiting["mpi"]] == [("1",), ("2",)]


def test_reservations_of_others_are_left():
    others = [
        Reservation("maintenance", 0, 1, "", "", 0, ("n1",)),
        Reservation("allocator-lab-0123456789ab", 0, 1, "mpi", "", 0, ("n1",)),
        Reservation("allocator-lab-2_hold_1", 0, 1, "mpi", "", 0, ("n1",)),
    ]
    assert plan([], [], present=others).released == []


def test_pieces_that_have_to_be_together_are_on_nodes_of_one_value():
    nodes = [node("n1", rack="a"), *(node(f"n{number}", rack="b") for number in range(2, 6))]
    decided = gang(2, servers="n1 n2 n3 n4 n5", together="rack")
    (hold,) = plan([decided], [job(1)], nodes=nodes).made
    assert list(hold.cores) == ["n2", "n3", "n4", "n5"]
    found = plan([decided], [job(1)], nodes=nodes[:4])
    assert found.made == []
    assert "no nodes are held for job 1" in found.problems["mpi"][0]


def test_jobs_of_one_switch_and_others_are_held_for_by_the_decision_of_their_own():
    nodes = [node("n1", switch="a"), *(node(f"n{number}", switch="b") for number in range(2, 6))]
    decided = gang(servers="n1 n2 n3 n4 n5", together="switch")
    asks = job(1, together="switch")
    (hold,) = plan([decided], [job(2), asks], nodes=nodes).made
    assert (hold.jobs, list(hold.cores)) == (("1",), ["n2", "n3", "n4", "n5"])
    (hold,) = plan([gang(together="cluster")], [job(2), asks], nodes=NODES_OF_A_CLUSTER).made
    assert hold.jobs == ("2",)


def test_two_kinds_are_held_for_with_the_cores_of_each():
    head, workers = job("40+0", tasks=1, cpu=3, whole="40"), job("40+1", tasks=2, cpu=2, whole="40")
    decided = gang(
        pieces=[
            {"count": 1, "limits": {"cpu": 3, "mem": 256}},
            {"count": 2, "limits": {"cpu": 2, "mem": 256}},
        ],
        servers="",
    )
    decided["servers"] = [
        {"name": name, "pieces": pieces, "shared": True}
        for name, pieces in (("n1", [0, 1]), ("n2", [1, 0]), ("n3", [0, 1]))
    ]
    (hold,) = plan([decided], [head, workers]).made
    assert (hold.name, hold.jobs) == (f"{PREFIX}40", ("40+0", "40+1"))
    assert hold.cores == {"n1": 2, "n2": 3, "n3": 2}
