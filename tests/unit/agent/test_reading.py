"""What Slurm 22.05 printed, read; and what other clusters may print."""

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator_agent.configuration import Configuration, SlurmOptions
from allocator_agent.quantities import Units, decimal_text, quantity
from allocator_agent.slurm import jobs as squeue
from allocator_agent.slurm import reading, tres
from allocator_agent.slurm.reading import Partition
from allocator_agent.slurm.scheduler import Slurm
from tests.examples import examples

MIB = 2**20
NODES = """\
NodeName=cpu-1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=12 CPUTot=12 CPULoad=0.79 \
AvailableFeatures=fast,owner-physics ActiveFeatures=fast,owner-physics Gres=gpu:A100:4(S:0-1),nic:2 \
NodeAddr=127.0.0.1 OS=Linux 6.18.44-fc-v657 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=4096 AllocMem=0 \
State=IDLE ThreadsPerCore=1 MemSpecLimit=96 Partitions=small,all  BootTime=2026-11-22T10:12:32 \
CfgTRES=cpu=12,mem=4G,billing=12 AllocTRES= Reason=it is= State=odd
NodeName=cpu-2 CPUTot=8 RealMemory=1024 State=IDLE+DRAIN Gres=(null) ActiveFeatures=(null) Partitions=all
NodeName=cpu-3 CPUTot=8 RealMemory=1024 State=DOWN* Gres=(null) Partitions=small
NodeName=cpu-4 CPUTot=8 RealMemory=1024 State=IDLE Gres=(null)
"""


def test_nodes_with_what_jobs_may_use_of_them():
    nodes = {
        node.name: node for node in reading.read_nodes(NODES, owner_feature="owner-", switches={})
    }
    first = nodes["cpu-1"]
    assert first.capacity == {"cpu": 12, "memory": 4000 * MIB, "gpu": 4, "gpu_a100": 4, "nic": 2}
    assert first.labels == {
        "partition": "small",
        "feature-fast": "true",
        "feature-owner-physics": "true",
        "gres.gpu": "A100",
    }
    assert first.owner == "physics"
    draining = {name: node.draining for name, node in nodes.items()}
    assert draining == {"cpu-1": False, "cpu-2": True, "cpu-3": True, "cpu-4": True}
    partitions = reading.read_partitions(NODES)
    assert partitions == {
        "small": Partition(("small",), 8, 20, frozenset({"cpu-1", "cpu-3"})),
        "all": Partition(("all", "small"), 8, 20, frozenset({"cpu-1", "cpu-2"})),
    }
    assert reading.partition_of_all(partitions) == ""
    of_two = reading.read_partitions("\n".join(NODES.splitlines()[:2]))
    assert reading.partition_of_all(of_two) == "all"
    assert reading.read_threads(NODES) == {"cpu-1": 1, "cpu-2": 1, "cpu-3": 1, "cpu-4": 1}
    two = NODES.splitlines()[0].replace("ThreadsPerCore=1", "ThreadsPerCore=2")
    assert reading.read_threads(two) == {"cpu-1": 2}
    busy = two.replace("AllocTRES=", "AllocTRES=cpu=4,mem=256M,gres/gpu=1,gres/gpu:a100=1")
    assert reading.read_allocated(busy) == {
        "cpu-1": {"cpu": 4, "memory": 256 * MIB, "gpu": 1, "gpu_a100": 1}
    }
    assert set(map(len, reading.read_allocated(NODES).values())) == {0}


@pytest.mark.parametrize(
    ("state", "draining"),
    [("IDLE*", False), ("MIXED+CLOUD+POWERED_DOWN", False), ("IDLE~", False), ("UNKNOWN*", False),
     ("DOWN*+DRAIN", True), ("ALLOCATED+DRAIN", True), ("MIXED+MAINT", True), ("FAILING", True)],
)  # fmt: skip
def test_a_node_is_out_of_work_when_slurm_says_so_and_not_before(state, draining):
    told = NODES.splitlines()[0].replace("State=IDLE ", f"State={state} ")
    assert [node.draining for node in reading.read_nodes(told, owner_feature="", switches={})] == [
        draining
    ]


TYPED = """\
NodeName=g1 CPUTot=8 RealMemory=1024 State=IDLE Gres=gpu:a100:4(S:0) Partitions=small
NodeName=g2 CPUTot=8 RealMemory=1024 State=IDLE Gres=gpu:a100:2,gpu:v100:2 Partitions=small
NodeName=g3 CPUTot=8 RealMemory=1024 State=IDLE Gres=gpu:2,nic:mlx:1 Partitions=small
"""


def test_nodes_count_gpus_in_total_and_by_type():
    nodes = {node.name: node for node in reading.read_nodes(TYPED, owner_feature="", switches={})}
    counts = {
        name: {key: int(v) for key, v in each.capacity.items() if key not in ("cpu", "memory")}
        for name, each in nodes.items()
    }
    assert counts == {
        "g1": {"gpu": 4, "gpu_a100": 4},
        "g2": {"gpu": 4, "gpu_a100": 2, "gpu_v100": 2},
        "g3": {"gpu": 2, "nic": 1},
    }
    labels = {name: each.labels.get("gres.gpu") for name, each in nodes.items()}
    assert labels == {"g1": "a100", "g2": "a100.v100", "g3": None}


def line(**told):
    fields = {
        "jobarrayid": "7", "account": "a", "username": "ann", "partition": "small",
        "statecompact": "PD", "reason": "Resources", "numnodes": "1",
        "tres-alloc": "cpu=4,mem=6G,node=1,billing=4,gres/gpu=1,gres/gpu:a100=1",
        "starttime": "N/A", "eligibletime": "2026-11-22T13:51:50", "requeue": "1",
        "reservation": "(null)", "associd": "7", "hetjobid": "N/A", "oversubscribe": "OK",
        "nodelist": "", "tres-per-job": "N/A", "tres-per-node": "N/A", "tres-per-socket": "N/A",
        "tres-per-task": "N/A", "reqswitch": "0", "licenses": "(null)",
    } | {name.replace("_", "-"): value for name, value in told.items()}  # fmt: skip
    return "".join(f"{fields[name]:<{width}}" for name, width in squeue.JOB_FIELDS)


SWITCHES = {"n1": "s1", "n2": "s1", "n3": "s2"}


def jobs(*lines, now=0, switches=()):
    partitions = {
        "small": Partition(("small",), 8),
        "big": Partition(("big",), 16),
        "all": Partition(("big", "small"), 8),
    }
    types = reading.read_types(TYPED)
    text = "\n".join(lines)
    found = squeue.read_jobs(
        text, partitions=partitions, types=types, switches=dict(switches), now=now
    )
    return list(found)


def test_jobs_that_wait_and_run():
    waits, runs = jobs(
        line(), line(jobarrayid="5_2", statecompact="R", starttime="2026-11-22T13:51:51")
    )
    assert waits.demand == {"cpu": 4, "memory": 6 * 1024 * MIB, "gpu": 1, "gpu_a100": 1}
    assert (waits.running, waits.where, waits.reservation) == (False, ("small",), "")
    assert (runs.running, runs.id, runs.started) == (True, "5_2", 1795355511)


def test_a_job_on_several_nodes_is_as_many_tasks():
    (job,) = jobs(line(numnodes="2", tres_alloc="cpu=4,mem=6G,node=2"))
    assert (job.tasks, job.demand) == (2, {"cpu": 2, "memory": 3072 * MIB})
    assert job.total == {"cpu": 4, "memory": 6144 * MIB}
    (job,) = jobs(line(numnodes="2-4"))
    assert job.tasks == 2
    assert (job.per_server, job.splits) == (1, False)


def test_a_job_that_shares_no_node_waits_for_all_cpus_of_each():
    """Slurm prints what it asks for while it waits, and what it has once it runs."""
    told = {"numnodes": "2", "tres_alloc": "cpu=2,mem=2G,node=2", "oversubscribe": "NO"}
    (waits,) = jobs(line(**told))
    assert waits.demand == {"cpu": 8, "memory": 1024 * MIB}
    (waits,) = jobs(line(**told, partition="big,all"))
    assert waits.demand["cpu"] == 8
    (runs,) = jobs(line(**told, statecompact="R"))
    assert runs.demand["cpu"] == 1
    (waits,) = jobs(line(**told, partition="gone"))
    assert waits.demand["cpu"] == 1


def test_parts_of_a_heterogeneous_job_start_together():
    first, second, alone = jobs(
        line(jobarrayid="40+0", hetjobid="40"), line(jobarrayid="40+1", hetjobid="40"), line()
    )
    assert (first.whole, second.whole, alone.whole) == ("40", "40", "")


def test_the_nodes_of_a_running_job():
    runs, waits = jobs(line(statecompact="R", nodelist="n[1-2],gpu1"), line(nodelist="n1"))
    assert (runs.nodes, waits.nodes) == (("n1", "n2", "gpu1"), ())
    # squeue cuts what has no room in its column: which nodes are missing is not known.
    width = dict(squeue.JOB_FIELDS)["nodelist"]
    (cut,) = jobs(line(statecompact="R", nodelist="n" * width))
    assert cut.nodes == ()


@pytest.mark.parametrize(
    ("told", "names"),
    [("", []), ("a", ["a"]), ("a,b2", ["a", "b2"]), ("n[1-3,07]", ["n1", "n2", "n3", "n07"]),
     ("n[08-11]", ["n08", "n09", "n10", "n11"]),
     ("r[1-2]n[1-2],x", ["r1n1", "r1n2", "r2n1", "r2n2", "x"]),
     ("n[1-2]-ib", ["n1-ib", "n2-ib"]), ("n[a]", []), ("n[1-]", ["n1"]), ("n[1-999999999]", [])],
)  # fmt: skip
def test_lists_of_nodes(told, names):
    assert list(reading.node_names(told)) == names


SHOWN = (
    "JobId=17 ReqNodeList={req} ExcNodeList={exc} Features={features} Contiguous={contiguous}"
    " OverSubscribe=OK Reservation=hold"
)


@pytest.mark.parametrize(
    ("change", "restricted"),
    [({}, False), ({"req": "n1"}, True), ({"exc": "n[2-3]"}, True), ({"features": "fast"}, True),
     ({"contiguous": "1"}, True)],
)  # fmt: skip
def test_a_job_that_may_run_on_some_nodes_only(change, restricted):
    free = {"req": "(null)", "exc": "(null)", "features": "(null)", "contiguous": "0"}
    shown = SHOWN.format(**(free | change))
    for together in ("", "switch"):
        assert squeue.is_restricted(shown, together=together) is restricted
    # A switch is a restriction unless the decision knows it.
    shown += " Switches=1@00:05:00"
    assert squeue.is_restricted(shown, together="") is True
    assert squeue.is_restricted(shown, together="switch") is restricted


TREE = """\
SwitchName=leaf-1 Level=0 LinkSpeed=1 Nodes=cpu-[1-2],gpu
SwitchName=leaf/2 Level=0 LinkSpeed=1 Nodes=cpu-[2-3]
SwitchName=root Level=1 LinkSpeed=1 Nodes=cpu-[1-4],gpu Switches=leaf-1,leaf/2
"""


def test_nodes_are_labelled_with_their_switch():
    switches = reading.read_switches(TREE)
    assert switches == {
        "cpu-1": "leaf-1", "cpu-2": "leaf-1", "gpu": "leaf-1", "cpu-3": "leaf-2",
    }  # fmt: skip
    nodes = reading.read_nodes(NODES, owner_feature="", switches=switches)
    assert {node.name: node.labels.get("switch") for node in nodes} == {
        "cpu-1": "leaf-1", "cpu-2": "leaf-1", "cpu-3": "leaf-2", "cpu-4": None,
    }  # fmt: skip
    # Without a tree, and with blocks, Slurm prints no switches.
    assert reading.read_switches("") == {}
    assert reading.read_switches("BlockName=b1 BlockIndex=0 Nodes=cpu-[1-4] BlockSize=4") == {}


@pytest.mark.parametrize(
    ("told", "switches", "together"),
    [
        ({"reqswitch": "1"}, SWITCHES, "switch"),
        ({"reqswitch": "1"}, {}, ""),
        ({"reqswitch": "2"}, SWITCHES, ""),
        ({}, SWITCHES, ""),
        ({"reqswitch": "1", "hetjobid": "5"}, SWITCHES, ""),
        ({"reqswitch": "1", "statecompact": "R", "nodelist": "n[1-2]"}, SWITCHES, "switch"),
        ({"reqswitch": "1", "statecompact": "R", "nodelist": "n[2-3]"}, SWITCHES, ""),
    ],
)
def test_a_job_that_asks_for_one_switch_has_its_nodes_together(told, switches, together):
    (found,) = jobs(line(numnodes="2", **told), switches=switches)
    assert found.together == together


def test_jobs_that_name_a_reservation_also_those_that_may_not_start():
    told = [
        line(reservation="hold"), line(jobarrayid="8", reservation="hold", reason="JobHeldUser"),
        line(jobarrayid="9"),
    ]  # fmt: skip
    assert squeue.read_reserved("\n".join(told)) == {"hold": ["7", "8"]}


def test_a_job_that_may_run_anywhere_selects_nothing():
    assert [job.where for job in jobs(line(partition="all"), line(partition="small,big"))] == [
        (),
        (),
    ]


@pytest.mark.parametrize("reason", squeue.NOT_YET)
def test_what_waits_for_something_else_is_no_demand(reason):
    assert jobs(line(reason=reason)) == []


def test_a_job_that_begins_soon_is_demand():
    begins = 1795355510
    late = line(reason="BeginTime")
    assert jobs(late, now=begins - 599) != []
    assert jobs(late, now=begins - 601) == []


def test_limits_are_read_as_they_are_shown():
    told = "cpu=8,mem=1.50G,gres/gpu=2"
    assert tres.read_limits(told) == {"cpu": 8, "mem": 1536, "gres/gpu": 2}
    assert tres.read_limits("") == {}
    with pytest.raises(ValueError, match="is not an amount"):
        tres.read_limits("cpu=many")


def test_usage_of_jobs_that_ran():
    told = """\
1|b|2026-11-22T13:44:38|2026-11-22T13:45:47|billing=1,cpu=1,mem=256M,node=1
1.batch|b|2026-11-22T13:44:38|2026-11-22T13:45:47|cpu=1,mem=256M
2|b|2026-11-22T13:44:38|Unknown|cpu=1
3|b|None|2026-11-22T13:45:47|
4|b|2026-11-22T13:44:38|2026-11-22T13:44:38|cpu=1
5|b|c|2026-11-22T13:44:38|2026-11-22T13:45:47|cpu=1
"""
    (usage,) = reading.read_usage(told)
    assert (usage.id, usage.account) == ("1@2026-11-22T13:44:38Z", "b")
    assert usage.amounts == {"cpu": 1, "memory": 256 * MIB}
    assert (usage.start, usage.end) == ("2026-11-22T13:44:38Z", "2026-11-22T13:45:47Z")


def test_names_with_the_separator_stop_no_usage():
    """Without users as members their names are not asked for."""
    rows = ["1|b|2026-11-22T13:44:38|2026-11-22T13:45:47|cpu=1"]
    asked = []

    class Sacct:
        def run(self, *words):
            asked.append(words[-1])
            return "".join(f"{row}\n" for row in rows)

    def finished(*, users):
        options = SlurmOptions(cluster="c", users=users)
        slurm = Slurm(Configuration("", "lab", "", "lab", "slurm", slurm=options), Sacct())
        found = slurm.finished(1, datetime(2026, 11, 22, 14, tzinfo=UTC))
        problems = slurm._problems_of_usage()
        return [usage.account for usage in found], [text[:6] for text in problems.get("", [])]

    assert finished(users=False) == (["b"], [])
    rows[:] = [f"{rows[0]}|ada", f"{rows[0]}|a|b"]
    assert finished(users=True) == (["b|ada"], ["1 jobs"])
    assert asked == [
        "--format=JobIDRaw,Account,Start,End,AllocTRES",
        "--format=JobIDRaw,Account,Start,End,AllocTRES,User",
    ]


def test_types_of_a_generic_resource_count_once_and_by_themselves():
    typed = {"gpu": 3, "gpu_a100": 1, "gpu_h100": 2}
    assert tres.read_tres("gres/gpu=3,gres/gpu:a100=1,gres/gpu:H100=2") == typed
    assert tres.read_tres("gres/gpu:a100=1,gres/gpu:h100=2") == typed
    assert tres.tres_of("gpu_a100") == "gres/gpu:a100"
    assert tres.resource_of("gres/gpu:a100") == "gpu_a100"
    assert tres.read_limits("gres/gpu:A100=2") == {"gres/gpu:a100": 2}


@pytest.mark.parametrize(
    ("asked", "selects"),
    [
        ({"tres_per_node": "gres:gpu:a100:1"}, (("gres.gpu", ("a100", "a100.v100")),)),
        ({"tres_per_job": "gres:gpu:v100:3"}, (("gres.gpu", ("a100.v100",)),)),
        ({"tres_per_task": "gres:gpu:a100"}, (("gres.gpu", ("a100", "a100.v100")),)),
        ({"tres_per_node": "gres:gpu:a100:1,gres:gpu:v100:1"}, (("gres.gpu", ("a100.v100",)),)),
        # The type that a job runs on is not one that it asks for.
        ({"tres_per_node": "gres:gpu:1", "statecompact": "R"}, ()),
        ({"tres_per_node": "gres:gpu"}, ()),
        ({"tres_per_node": "gres:gpu:h100:1"}, ()),
        ({}, ()),
    ],
)
def test_jobs_select_the_nodes_that_have_the_types_they_ask_for(asked, selects):
    (found,) = jobs(line(**asked))
    assert found.selects == selects


RESERVATIONS = """\
ReservationName=allocator-lab-1 StartTime=2026-11-22T13:54:45 EndTime=2026-11-22T13:55:55
   Nodes=cpu-[1-2] NodeCnt=2 CoreCnt=10 Features=(null) PartitionName=cpu Flags=IGNORE_JOBS,SPEC_NODES
     NodeName=cpu-1 CoreIDs=0-2,4
     NodeName=cpu-2 CoreIDs=0-5
   TRES=cpu=10
   Users=(null) Groups=(null) Accounts=a Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)

ReservationName=upgrade StartTime=2026-11-22T13:54:45 EndTime=2026-11-22T13:55:55
   Nodes=mem-1 NodeCnt=1 CoreCnt=4 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES
   TRES=cpu=4
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)

"""


def test_reservations():
    item, upgrade = reading.read_reservations(RESERVATIONS)
    assert (item.account, item.partition, item.cores, item.end - item.start) == ("a", "cpu", 10, 70)
    assert (item.nodes, item.cores_of) == (("cpu-1", "cpu-2"), {"cpu-1": 4, "cpu-2": 6})
    assert (upgrade.name, upgrade.account, upgrade.partition) == ("upgrade", "", "")
    assert (upgrade.nodes, upgrade.cores_of) == (("mem-1",), {})
    assert (item.is_active, upgrade.is_active) == (False, True)
    assert list(reading.read_reservations("No reservations in the system")) == []


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("500m", Fraction(1, 2)),
        ("512Mi", 512 * MIB),
        ("1e3", 1000),
        ("1.5Gi", 1536 * MIB),
        ("2k", 2000),
    ],
)
def test_quantities_of_kubernetes(text, amount):
    assert quantity(text) == amount


@pytest.mark.parametrize("text", ["", "1,5", "NaN", "512MB", "Mi", "1e9999", "--1", "1\0"])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity(text)


@pytest.mark.parametrize(
    ("unit", "told"),
    [("", "1536"), ("MiB", "1536"), ("GiB", "1.5"), ("B", "1610612736"), ("GB", "1.610612736")],
)
def test_memory_is_told_in_the_pools_unit(unit, told):
    units = Units([{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": unit}])
    amounts = {"cpu": Fraction(2), "memory": Fraction(1536 * MIB), "gpu": Fraction(1)}
    assert units.to_pool(amounts) == {"cpu": "2", "memory": told}


@examples(500)
@given(st.fractions(min_value=0, max_value=10**9))
def test_rounding_is_at_the_digits_that_the_service_keeps(amount):
    down, up = Fraction(decimal_text(amount)), Fraction(decimal_text(amount, up=True))
    assert down <= amount <= up
    assert up - down <= Fraction(1, 10**12)


def array_line(task):
    return line(jobarrayid=task) + "\n"


@pytest.mark.parametrize(
    ("printed", "arrays", "lost"),
    [
        ([22, 25, 196], "6_[22-199:3]\n", ["6_199"]),
        ([5, 10, 25], "6_[5-30:5%2]\n", ["6_30"]),
        ([1, 3], "6_[1-8:2]\n", ["6_7"]),  # the last of the steps
        ([22, 199], "6_[22-199:3]\n", []),  # a Slurm that prints it
        ([22, 25], "6_[22,25]\n7\n8_[1-3]\n", []),
        ([], "6_[22-199:3]\n", []),  # all of them have started meanwhile
        ([9], "6_[9-1:3]\n6_[9-12:0]\n", ["6_12"]),  # nonsense costs nothing
    ],
)
def test_tasks_of_arrays_that_squeue_does_not_print_are_added(printed, arrays, lost):
    queue = "".join(array_line(f"6_{number}") for number in printed)
    told = squeue.with_lost_tasks(queue, arrays)
    assert told == queue + "".join(map(array_line, lost))


@pytest.mark.parametrize(
    ("licences", "expected"),
    [
        # Slurm drops the text if the licence leaves slurm.conf, and limits the job by its TRES still.
        ("(null)", {"license_matlab": 2}),
        ("matlab:1", {"license_matlab": 2}),
        ("matlab:3", {"license_matlab": 3}),
        ("MatLab=2,ansys", {"license_matlab": 2, "license_ansys": 1}),
        ("matlab,matlab:2;ansys:3", {"license_matlab": 3, "license_ansys": 3}),
        ("ansys@db:1", {"license_matlab": 2, "license_ansys@db": 1}),
        ("a:1|b:1", {"license_matlab": 2, "license_a:1|b:1": 1}),
        ("a:x", {"license_matlab": 2, "license_a:x": 1}),
        (",", {"license_matlab": 2, "license_,": 1}),
    ],
)
def test_licences_are_of_the_whole_job_and_of_no_node(licences, expected):
    allocated = "cpu=4,mem=6G,node=2,license/matlab=2"
    (found,) = jobs(line(licenses=licences, numnodes="2", **{"tres-alloc": allocated}))
    assert found.licences == expected
    assert found.demand == {"cpu": 2, "memory": 3 * 2**30}
    assert found.total == {"cpu": 4, "memory": 6 * 2**30, **expected}


def test_squeue_has_room_for_the_amounts_of_a_job_with_many_licences():
    licences = ",".join(f"license/vendor_product_{number}=1" for number in range(20))
    amounts = f"cpu=4,mem=6G,node=1,billing=4,{licences},gres/gpu=2"
    (found,) = jobs(line(tres_alloc=amounts[: dict(squeue.JOB_FIELDS)["tres-alloc"]]))
    assert found.demand["gpu"] == 2
    assert len(found.licences) == 20


def test_licences_that_squeue_cuts_are_not_guessed():
    name = "m" * 247
    (found,) = jobs(line(licenses=f"{name}:1,ansys:2"))
    assert found.licences == {f"license_{name}:1,ansys:": 1}


def test_licences_that_jobs_can_get():
    shown = (
        "LicenseName=b Total=5 Used=1 Free=2 Reserved=2 Remote=no\n"
        "LicenseName=A@db Total=4 Used=1 Free=3 Reserved=0 Remote=yes LastConsumed=2 LastDeficit=1\n"
        "LicenseName=c Total=1 Used=0 Free=0 Reserved=3 Remote=no\n"
        "LicenseName=B Total=2 Used=0 Free=2 Reserved=0 Remote=no\n"
    )
    assert reading.read_licences(shown) == {"license_b": 5, "license_a@db": 4, "license_c": 0}
    assert reading.read_licences("No licenses configured in Slurm.\n") == {}
    for resource, name in (("license_matlab", "license/matlab"), ("license", "gres/license")):
        assert (tres.tres_of(resource), tres.resource_of(name)) == (name, resource)
