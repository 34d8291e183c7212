"""What was observed, as the rows that the service imports."""

from fractions import Fraction

from allocator_agent.configuration import Configuration
from allocator_agent.feeding import node_document
from allocator_agent.model import Job, Node
from allocator_agent.quantities import Units
from allocator_agent.workload_rows import (
    csv_text,
    emptied,
    jobs_by_workload,
    rows_of,
    workload_name,
)

MIB = 2**20
UNITS = Units([{"name": "cpu", "unit": "CPU"}, {"name": "memory", "unit": "GiB"}])
CONFIGURATION = Configuration(
    url="", pool="lab", key="", name="lab", scheduler="slurm", accounts={"Dept.X": "x-dept"}
)


def job(number, account="a", cpu=1, memory=512, **more):
    demand = {"cpu": Fraction(cpu), "memory": Fraction(memory * MIB), "gpu": Fraction(0)}
    return Job(str(number), account, demand, more.pop("running", False), **more)


def rows(*jobs, places=True, gangs=False, units=UNITS):
    workloads = jobs_by_workload(jobs, CONFIGURATION, units, places=places, gangs=gangs)
    return rows_of(workloads, CONFIGURATION.class_label)


def test_jobs_of_one_account_place_and_shape_are_one_workload():
    told = rows(
        job(1), job(2, running=True), job(3, tasks=2), job(4, where=("big",)), job(5, "Dept.X")
    )
    assert [(row["tenant"], row["name"], row["tasks"]) for row in told] == [
        ("a", "lab/any/cpu=1,memory=512Mi", "4"),
        ("a", "lab/big/cpu=1,memory=512Mi", "1"),
        ("x-dept", "lab/any/cpu=1,memory=512Mi", "1"),
    ]
    assert told[0]["demand.memory"] == "0.5"
    assert told[1]["selector.partition"] == "big"


def test_jobs_that_ask_for_a_type_select_its_servers_unless_the_type_is_a_resource():
    typed = {"cpu": Fraction(1), "gpu": Fraction(2), "gpu_a100": Fraction(2)}
    asks = Job("1", "a", typed, False, selects=(("gres.gpu", ("a100", "a100.v100")),))
    (row,) = rows(asks)
    assert row["name"] == "lab/any,gres.gpu=a100+a100.v100/cpu=1"
    assert row["selector.gres.gpu"] == "a100|a100.v100"
    assert [each["name"] for each in rows(asks, places=False)] == ["lab/any/cpu=1"]
    units = Units([{"name": "gpu"}, {"name": "gpu_a100"}])
    (row,) = rows(asks, units=units, gangs=True)
    assert row["name"] == "lab/any/gpu=2,gpu_a100=2"
    assert "selector.gres.gpu" not in row
    # Slurm counts no type without its TRES, and a pool may count another type only.
    for demand in ({"gpu": Fraction(1)}, {"gpu": Fraction(1), "gpu_v100": Fraction(1)}):
        other = Job("1", "a", demand, False, selects=(("gres.gpu", ("a100",)),))
        (row,) = rows(other, units=units, gangs=True)
        assert row["selector.gres.gpu"] == "a100"


def test_jobs_of_several_nodes_are_gangs_where_the_policy_places_them():
    told = rows(
        job(1, tasks=4, per_server=1), job(2, tasks=4, per_server=1, running=True), job(3),
        gangs=True,
    )  # fmt: skip
    assert told == [
        {
            "tenant": "a", "name": "lab/any/cpu=1,memory=512Mi", "tasks": "1",
            "demand.cpu": "1", "demand.memory": "0.5",
        },
        {
            "tenant": "a", "name": "lab/any/4 x cpu=1,memory=512Mi", "tasks": "2", "pieces": "4",
            "per_server": "1", "demand.cpu": "1", "demand.memory": "0.5",
        },
    ]  # fmt: skip


def test_nodes_of_one_switch_are_stated_for_gangs_alone():
    shape = {"tasks": 4, "per_server": 1}
    told = rows(job(1, together="switch", **shape), job(2, **shape), gangs=True)
    assert [(row["name"], row.get("together")) for row in told] == [
        ("lab/any/4 x cpu=1,memory=512Mi", None),
        ("lab/any/4 x cpu=1,memory=512Mi in one switch", "switch"),
    ]
    for options in ({"gangs": False}, {"gangs": True, "places": False}):
        (told,) = rows(job(1, together="switch", **shape), job(2, **shape), **options)
        assert "together" not in told
    (told,) = rows(job(1, together="switch"), gangs=True)
    assert (told["name"], "together" in told) == ("lab/any/cpu=1,memory=512Mi", False)


def test_what_starts_together_is_one_gang_of_at_most_two_kinds():
    (told,) = rows(job(1, whole="w", cpu=2), job(2, whole="w", tasks=3), gangs=True)
    assert told["name"] == "lab/any/3 x cpu=1,memory=512Mi and 1 x cpu=2,memory=512Mi"
    assert (told["pieces"], told["second_pieces"], told["tasks"]) == ("3", "1", "1")
    assert (told["demand.cpu"], told["second_demand.cpu"]) == ("1", "2")
    assert "per_server" not in told
    # Parts alike are one kind.
    (told,) = rows(job(1, whole="w"), job(2, whole="w", tasks=3), gangs=True)
    assert (told["pieces"], told.get("second_pieces")) == ("4", None)
    # Three kinds, or parts for different nodes, are single tasks.
    three = [job(number, whole="w", cpu=number) for number in (1, 2, 3)]
    assert [row["tasks"] for row in rows(*three, gangs=True)] == ["1", "1", "1"]
    apart = [job(1, whole="w", where=("big",)), job(2, whole="w", where=("small",))]
    assert len(rows(*apart, gangs=True)) == 2


def test_pieces_are_told_apart_by_what_the_pool_counts():
    """A GPU that the pool does not count makes no kind, and a part that takes nothing else none."""
    gpu = {"cpu": Fraction(1), "memory": Fraction(512 * MIB), "gpu": Fraction(2)}
    (told,) = rows(job(1, whole="w"), Job("2", "a", gpu, False, tasks=3, whole="w"), gangs=True)
    assert (told["pieces"], "second_pieces" in told) == ("4", False)
    only_gpu = Job("2", "a", {"gpu": Fraction(1)}, False, whole="w")
    (told,) = rows(job(1, whole="w", tasks=2), only_gpu, gangs=True)
    assert (told["pieces"], "second_pieces" in told) == ("2", False)


def test_what_splits_is_single_tasks():
    (told,) = rows(job(1, tasks=4, splits=True), gangs=True)
    assert (told["tasks"], "pieces" in told) == ("4", False)


def test_nothing_is_selected_where_the_policy_places_nothing():
    told = rows(job(1), job(2, where=("big", "small")), places=False)
    assert [(row["name"], row["tasks"]) for row in told] == [("lab/any/cpu=1,memory=512Mi", "2")]
    (told,) = rows(job(2, where=("big", "small")))
    assert told["selector.partition"] == "big|small"


def test_a_job_that_asks_for_nothing_the_pool_counts_is_left_out():
    assert rows(Job("1", "a", {"gpu": Fraction(1)}, False), job(2, cpu=0, memory=0)) == []


def test_a_name_that_is_too_long_is_cut_and_stays_its_own():
    places = tuple(f"partition-{number:03}" for number in range(40))
    names = {workload_name("lab", places, [(1, job(1, cpu=cpu).demand)], UNITS) for cpu in (1, 2)}
    assert len(names) == 2
    assert all(len(name) <= 240 for name in names)


def test_a_workload_that_nobody_wants_any_more_keeps_all_but_its_tasks():
    workload = {
        "tenant": "a", "name": "lab/big/x", "tasks": 3, "priority": 2,
        "demand": {"cpu": 1, "memory": 1e-07}, "server_selector": {"partition": ["b", "c"]},
    }  # fmt: skip
    assert emptied(workload) == {
        "tenant": "a",
        "name": "lab/big/x",
        "tasks": "0",
        "priority": "2",
        "demand.cpu": "1",
        "demand.memory": "0.0000001",
        "selector.partition": "b|c",
    }


def test_rows_become_a_csv_whose_cells_cannot_break_out():
    text = csv_text([{"name": 'a,"b"\n', "tasks": "1"}, {"name": "c", "selector.x": "y"}])
    assert text == 'name,selector.x,tasks\n"a,""b""\n",,1\nc,y,\n'


def test_a_node_is_told_in_bytes_with_the_agents_mark():
    node = Node("n1", {"memory": Fraction(4 * MIB)}, {"partition": "big"}, True, owner="physics")
    assert node_document(node, "lab") == {
        "metadata": {
            "name": "n1",
            "labels": {
                "partition": "big",
                "allocator-agent": "lab",
                "allocator-owner": "physics",
            },
        },
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"memory": "4194304"}},
    }


def test_jobs_are_found_by_their_workload():
    parts = [job(1, whole="1"), job(2, whole="1", memory=256)]
    found = jobs_by_workload(
        [*parts, job(3, "Dept.X")], CONFIGURATION, UNITS, places=True, gangs=True
    )
    jobs = {(each.tenant, job.id): tasks for each in found for job, tasks in found[each]}
    assert jobs == {("a", "1"): 1, ("a", "2"): 0, ("x-dept", "3"): 1}
