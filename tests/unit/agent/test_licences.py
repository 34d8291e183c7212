"""Licences as resources of the pool: which are counted, and how jobs and limits name them."""

from dataclasses import replace
from fractions import Fraction

import pytest

from allocator_agent.configuration import Configuration
from allocator_agent.feeding import Feed
from allocator_agent.licences import licence_server, with_counted_licences
from allocator_agent.model import Job, Node, Observation
from allocator_agent.quantities import Units
from allocator_agent.service import Known
from allocator_agent.slurm.holds import HeldCluster, plan_holds
from allocator_agent.slurm.planning import plan_removals
from allocator_agent.slurm.reading import Association, Reservation
from allocator_agent.workload_rows import jobs_by_workload, rows_of

CONFIGURATION = Configuration(url="", pool="lab", key="", name="lab", scheduler="slurm")
UNITS = Units([{"name": "cpu"}, {"name": "license_matlab"}])
WITHOUT = Units([{"name": "cpu"}])
MATLAB = {"license_matlab": Fraction(2)}
BOTH = {**MATLAB, "license_ansys": Fraction(1)}
PLACED = {"places": True, "gangs": True}
ONE_POOL = {"places": False, "gangs": False}
SINGLE = {"places": True, "gangs": False}


def job(number, licences=(), **more):
    demand = {"cpu": Fraction(more.pop("cpu", 1))}
    return Job(
        str(number), "a", demand, more.pop("running", False), licences=dict(licences), **more
    )


def observed(*jobs, licences=BOTH):
    labels = {"partition": "small", "gres.gpu": "a100", "feature-fast": "true"}
    return Observation(
        [Node("n", {}, labels, False)], list(jobs), frozenset("a"), licences=licences
    )


def rows(*jobs, places, gangs):
    workloads = jobs_by_workload(jobs, CONFIGURATION, UNITS, places=places, gangs=gangs)
    return rows_of(workloads, CONFIGURATION.class_label)


@pytest.mark.parametrize("policy", [PLACED, ONE_POOL])
def test_licences_that_are_resources_of_the_pool_are_counted(policy):
    found = with_counted_licences(observed(job(1, MATLAB)), UNITS, **policy)
    assert (found.jobs[0].licences, found.licences) == (MATLAB, MATLAB)
    assert (found.notes, found.problems) == ([], [])


def test_other_licences_are_left_out_and_noted():
    waits = job(2, BOTH, reason="Licenses")
    found = with_counted_licences(observed(job(1, BOTH), waits), UNITS, **PLACED)
    assert [each.licences for each in found.jobs] == [MATLAB]
    assert found.notes == ["2 jobs ask for licences that are not counted: ansys"]
    # A job that waits for licences which the decision divides is demand.
    (waits,) = with_counted_licences(
        observed(job(2, MATLAB, reason="Licenses")), UNITS, **PLACED
    ).jobs
    assert waits.licences == MATLAB
    found = with_counted_licences(observed(job(1, BOTH)), WITHOUT, **PLACED)
    assert (found.licences, found.problems) == ({}, [])


def test_parts_that_start_together_wait_together_for_other_licences():
    """The part that lacks them has the reason, and the others alone would be no job."""
    parts = [job(1, BOTH, whole="1", reason="Licenses"), job(2, whole="1", reason="Priority")]
    found = with_counted_licences(observed(*parts), UNITS, **PLACED)
    assert found.jobs == []
    assert found.notes == ["1 job asks for licences that are not counted: ansys"]


def test_a_policy_that_puts_each_task_on_one_server_divides_no_licences():
    found = with_counted_licences(observed(job(1, MATLAB)), UNITS, **SINGLE)
    assert (found.jobs[0].licences, found.licences) == ({}, {})
    (problem,) = found.problems
    assert "no job gets license_matlab" in problem
    assert not with_counted_licences(observed(job(1)), WITHOUT, **SINGLE).problems


def test_licences_are_left_out_of_jobs_with_too_many_kinds_of_pieces():
    parts = [job(1, MATLAB, whole="1", cpu=1), job(2, whole="1", cpu=2)]
    elsewhere = [job(1, MATLAB, whole="1"), job(2, whole="1", where=("big",))]
    for jobs in (parts, elsewhere):
        # Waiting ones would never start: their accounts get no licence.
        found = with_counted_licences(observed(*jobs), UNITS, **PLACED)
        assert found.jobs == []
        assert "cannot start" in found.problems[0]
        runs = [replace(each, running=True) for each in jobs]
        found = with_counted_licences(observed(*runs), UNITS, **PLACED)
        assert [each.licences for each in found.jobs] == [{}, {}]
        assert not found.problems
        assert found.notes
    # One pool has both, part by part.
    found = with_counted_licences(observed(*parts), UNITS, **ONE_POOL)
    assert [each.licences for each in found.jobs] == [MATLAB, {}]
    assert not found.notes


def test_licences_are_a_piece_of_a_job_where_the_policy_places_gangs():
    (row,) = rows(job(1, MATLAB), job(2, MATLAB, running=True), **PLACED)
    assert row == {
        "tenant": "a", "name": "lab/any/1 x cpu=1 and 1 x license_matlab=2", "tasks": "2",
        "pieces": "1", "demand.cpu": "1", "second_pieces": "1", "second_demand.license_matlab": "2",
    }  # fmt: skip
    selects = (("gres.gpu", ("a100",)),)
    (row,) = rows(
        job(1, MATLAB, tasks=3, where=("big",), selects=selects, together="switch"), **PLACED
    )
    assert row["name"] == "lab/big,gres.gpu=a100/3 x cpu=1 and 1 x license_matlab=2"
    assert row["selector.partition"] == "big|slurm-licenses"
    assert row["selector.gres.gpu"] == "a100|slurm-licenses"
    assert (row["pieces"], row["second_pieces"], row.get("together")) == ("3", "1", None)


def test_licences_alone_are_a_task_where_the_pool_counts_nothing_else_of_a_job():
    units = Units([{"name": "gpu"}, {"name": "license_matlab"}])
    found = with_counted_licences(observed(job(1, MATLAB)), units, **PLACED)
    workloads = jobs_by_workload(found.jobs, CONFIGURATION, units, **PLACED)
    (row,) = rows_of(workloads, CONFIGURATION.class_label)
    assert (row["tasks"], row["demand.license_matlab"]) == ("1", "2")


class Refusing:
    """A service that refuses gangs."""

    def import_rows(self, kind, body):
        error = {"code": "workload.pieces", "detail": "No gangs."}
        rows = [] if kind == "nodes" else [{"name": "x", "outcome": "refused", "errors": [error]}]
        return {"rows": rows}, 1


def test_licences_are_left_out_with_a_problem_if_the_service_refuses_gangs():
    known = Known({}, True, True, frozenset("a"), [], [])
    feed = Feed(CONFIGURATION, Refusing(), UNITS, known, dry_run=True)
    feed.send(observed(job(1, MATLAB), licences=MATLAB))
    assert any("cannot run gangs" in problem for problem in feed.problems)
    assert any("no job gets license_matlab" in problem for problem in feed.problems)
    assert feed.workload_of == {"1": ("a", "lab/any/cpu=1")}


def test_licences_of_parts_that_start_together_are_one_piece():
    """The pool has one server of them, which has no room for a piece of each part beside another."""
    (row,) = rows(job(1, MATLAB, whole="1"), job(2, MATLAB, whole="1"), **PLACED)
    assert (row["pieces"], row["second_pieces"], row["second_demand.license_matlab"]) == (
        "2",
        "1",
        "4",
    )


def test_a_job_with_licences_is_one_task_where_the_policy_sees_one_pool():
    """A third of a licence for each of three nodes, rounded up, would be more than one."""
    one = {"license_matlab": Fraction(1)}
    (row,) = rows(job(1, one, tasks=3), job(2, one, tasks=3), **ONE_POOL)
    assert (row["tasks"], row["demand.cpu"], row["demand.license_matlab"]) == ("2", "3", "1")


def test_the_server_of_the_licences_has_a_value_of_each_label_that_jobs_select_by():
    server = licence_server(observed(licences=MATLAB), CONFIGURATION)
    assert (server.name, server.capacity) == ("lab-licenses", MATLAB)
    assert server.labels == {"partition": "slurm-licenses", "gres.gpu": "slurm-licenses"}
    none = observed(licences={"license_matlab": Fraction(0)})
    assert licence_server(none, CONFIGURATION) is None


def held(*jobs, pieces, classes=(), present=()):
    nodes = [Node(f"n{number}", {"cpu": Fraction(4)}, {}, False) for number in (1, 2)]
    counts = [each["count"] and each["limits"]["cpu"] > 0 for each in pieces]
    servers = [
        {"name": node.name, "pieces": [int(c) for c in counts], "shared": True} for node in nodes
    ]
    servers.append({"name": "lab-licenses", "pieces": [int(not c) for c in counts], "shared": True})
    item = {
        "kind": "gang", "tenant": "a", "workload": "lab/any/x", "tasks": 1, "pieces": pieces,
        "per_server": None, "together": None, "classes": list(classes), "servers": servers,
    }  # fmt: skip
    cluster = HeldCluster(nodes, present, {}, {}, {}, {}, "hold_", "lab/", lambda _: False, 0)
    return plan_holds([item], jobs, {"a": "a"}, cluster)


def test_nodes_are_held_for_a_job_with_licences_and_none_for_the_licences():
    node_pieces = {"count": 2, "limits": {"cpu": 1, "license/matlab": 0}}
    licences = {"count": 1, "limits": {"cpu": 0, "license/matlab": 2}}
    waits = job(1, MATLAB, tasks=2, reason="Resources", where=("big",), partition="big")
    plan = held(waits, pieces=[node_pieces, licences], classes=["big", "slurm-licenses"])
    assert [hold.cores for hold in plan.made] == [{"n1": 1, "n2": 1}]
    # No licence is on a switch, so that the decision keeps no such job on one.
    plan = held(replace(waits, together="switch"), pieces=[node_pieces, licences], classes=["big"])
    assert plan.made
    # Slurm finds a single node by itself.
    single = job(1, MATLAB, reason="Resources")
    assert not held(single, pieces=[{**node_pieces, "count": 1}, licences]).made


def test_no_nodes_are_held_for_a_job_that_waits_for_licences():
    pieces = [
        {"count": 2, "limits": {"cpu": 1, "license/matlab": 0}},
        {"count": 1, "limits": {"cpu": 0, "license/matlab": 2}},
    ]
    waits = job(1, MATLAB, tasks=2, reason="Licenses", reservation="hold_1")
    present = Reservation("hold_1", 0, 10, "a", "", 2, ("n1", "n2"))
    plan = held(waits, pieces=pieces, present=[present])
    assert [release.name for release in plan.released] == ["hold_1"]


def test_limits_of_partitions_that_name_no_licences_are_the_agents():
    limits = {"cpu": 4, "license/matlab": 2}
    objects = [{"kind": "account", "tenant": "a", "limits": limits}]
    row = Association("a", "ann", "big", {"cpu": 1}, "1")
    (removal,), _ = plan_removals(objects, [row], {"a": "a"}, {}, classes=False)
    assert removal.before == {"cpu": 1}
