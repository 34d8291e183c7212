"""H-MRF's tables and figures again: exact examples, properties, and clusters in a small form."""

import numpy as np
import pytest

from papers import Row, Verdict, hmrf_cluster, hmrf_two_jobs, reproduce
from papers.phases import Phase, play
from papers.words import word_for_word
from policies import Problem
from policies.simulation import simulate
from tests.unit.papers.findings import check_form, claims, ours, swim_file

POLICIES = ("drf", "asset", "lt-drf", "lt-af", "h-mrf")


@pytest.mark.parametrize("name", ["h-mrf-table1", "h-mrf-fig3"])
def test_every_printed_number_comes_out(name):
    finding = reproduce(name, None)
    assert finding.verdict is Verdict.YES
    assert finding.differences == ("None: the answer is exact.",)
    assert [row.ours for row in finding.rows] == [row.paper for row in finding.rows]


def test_table_1_of_h_mrf_is_even_in_the_long_term_only():
    found = ours("h-mrf-table1")
    assert found["drf: tasks of A and B in all"] == "86, 56"
    assert found["asset: tasks of A and B in all"] == "86, 56"
    assert found["h-mrf, t2: total tasks of A and B"] == "26, 24"
    assert found["h-mrf, t2: running tasks of A and B"] == "4, 24"
    assert found["h-mrf: tasks of A and B in all"] == "59, 59"


def test_example_4_is_as_figures_3_to_5_have_it():
    found = ours("h-mrf-fig3")
    assert found["lt-drf, t2: accumulated dominant shares, per cent"] == "100, 100"
    assert found["lt-af, t2: aggregates"] == "171, 172"
    assert found["h-mrf, t2: tasks of A and B"] == "40, 20"
    assert found["h-mrf, t2: sharing degrees"] == "1.375, 1"


def test_a_number_that_differs_is_named():
    rows = [Row("a", "1", "1"), Row("b", "2", "3"), Row("c", "4", "5")]
    assert word_for_word(rows[:2]) == (Verdict.PARTLY, ("Another number came out of: b.",))
    assert word_for_word(rows) == (Verdict.NO, ("Another number came out of: b; c.",))


def test_comparisons_come_to_a_verdict():
    assert Verdict.of([True, True]) is Verdict.YES
    assert Verdict.of([True, False]) is Verdict.PARTLY
    assert Verdict.of([True, False, False]) is Verdict.NO
    assert Verdict.of([True, True], same_input=False) is Verdict.PARTLY


def test_properties_over_time_are_what_scenarios_show():
    found = ours("h-mrf-table2")
    words = {what: text.partition(":")[0] for what, text in found.items()}
    # DRF gives everybody its part at each time; who is ahead in the long term may get nothing for long.
    assert {p: words[f"sharing incentive, {p}"] for p in POLICIES} == {
        "drf": "holds", "asset": "violated", "lt-drf": "violated", "lt-af": "violated",
        "h-mrf": "holds",
    }  # fmt: skip
    assert {p: words[f"resource-as-you-contributed, {p}"] for p in POLICIES} == {
        "drf": "violated", "asset": "violated", "lt-drf": "violated", "lt-af": "holds",
        "h-mrf": "violated",
    }  # fmt: skip
    assert {p: found[f"truthfulness, {p}"] for p in POLICIES} == {
        "drf": "violated: gains +4 tasks", "asset": "violated: gains +4 tasks",
        "lt-drf": "holds: gains +0 tasks", "lt-af": "holds: gains +0 tasks",
        "h-mrf": "holds: gains +0 tasks",
    }  # fmt: skip
    assert {found[f"Pareto efficiency, {p}"] for p in POLICIES} == {"holds: 7 of 7 steps"}


def one_core(tenants=1):
    return Problem.create(
        resources=("cpu",), capacity=[[2]], tenants=[f"user {i}" for i in range(tenants)],
        demand=[[1]] * tenants,
    )  # fmt: skip


def seconds(*values):
    return np.array(values, dtype=np.float64)


def test_a_phase_begins_when_those_before_it_are_done():
    problem = one_core()
    phases = [
        Phase(0, seconds(5, 3, 4)),
        Phase(0, seconds(2), after=(0,)),
        Phase(0, seconds(1), at=20, after=(0,)),
        Phase(0, seconds(1), after=(1, 2), delay=10),
    ]
    played = play(phases, lambda trace: simulate(problem, trace, "drf"))
    # Two cores: 5 and 3, then 4 from second 3 on.
    assert played.begun.tolist() == [0, 7, 20, 31]
    assert played.done.tolist() == [7, 9, 21, 32]
    assert played.simulation.trace.tasks == 6


def test_phases_of_two_users_wait_for_each_other_s_tasks_too():
    problem = one_core(2)
    phases = [
        Phase(0, seconds(4, 4)),
        Phase(0, seconds(1, 1), after=(0,)),
        Phase(1, seconds(6, 6), at=1),
        Phase(1, seconds(1), after=(2,)),
    ]
    played = play(phases, lambda trace: simulate(problem, trace, "drf"))
    # At second 4 user 1 runs nothing, so its tasks go first, one after the other with user 0's.
    assert played.begun.tolist() == [0, 4, 1, 12]
    simulation = played.simulation
    for position, phase in enumerate(phases):
        its = simulation.trace.job == position
        assert simulation.end[its].max() == played.done[position]
        assert (simulation.start[its] >= played.begun[position]).all()
        for before in phase.after:
            assert played.begun[position] >= played.done[before]


def test_the_second_job_catches_up(monkeypatch):
    monkeypatch.setattr(hmrf_two_jobs, "SERVERS", 12)
    monkeypatch.setattr(hmrf_two_jobs, "MAPS", 130)
    monkeypatch.setattr(hmrf_two_jobs, "REDUCES", 40)
    finding = reproduce("h-mrf-fig7", None)
    check_form(finding)
    found = {row.what: row.ours for row in finding.rows}
    assert found["the highest sharing degree of Job 1"] == "2"
    assert (
        claims(finding)["Job 2 begins with a loss, because running tasks are not stopped"] == "yes"
    )
    assert claims(finding)["Job 1's degree falls while Job 2 catches up"] == "yes"
    assert [figure.name for figure in finding.figures] == [
        "h-mrf-fig7a", "h-mrf-fig7b", "h-mrf-fig7c", "h-mrf-fig7d",
    ]  # fmt: skip


@pytest.fixture
def few_jobs(monkeypatch, tmp_path):
    """The cluster with few jobs on few nodes, and the folder of its trace."""
    for name, value in (
        ("FACEBOOK_JOBS", 12), ("PURDUE_JOBS", 1), ("SPARK_ROUNDS", 1), ("QUERIES", 2),
        ("NODES_EACH", 3), ("SAMPLES", 50),
    ):  # fmt: skip
        monkeypatch.setattr(hmrf_cluster, name, value)
    hmrf_cluster.measured.cache_clear()
    yield swim_file(tmp_path)
    hmrf_cluster.measured.cache_clear()


def test_four_users_gain_by_sharing(few_jobs):
    degrees, performance = reproduce("h-mrf-fig8", few_jobs), reproduce("h-mrf-fig9", few_jobs)
    for finding in (degrees, performance):
        check_form(finding)
    assert claims(degrees)["under H-MRF no user is at a loss in the end"] == "yes"
    everybody = "every workload is done earlier than alone under every sharing policy"
    assert everybody in claims(performance)
    alone = hmrf_cluster.measured(few_jobs)["static"]
    # Alone, a user has what it would have had alone, but for tasks that are larger than what is left.
    assert (alone.last <= 1 + 1e-9).all()


def test_reduce_tasks_wait_for_map_tasks(few_jobs):
    _, phases, whose = hmrf_cluster.workloads(few_jobs)
    assert sorted(set(whose)) == [0, 1, 2, 3]
    waiting = [
        phase for phase, user in zip(phases, whose, strict=True) if phase.after and user == 0
    ]
    assert all(len(phase.duration) in (2, 10, 30, 60) for phase in waiting)
    spark = [phase for phase, user in zip(phases, whose, strict=True) if user == 2]
    assert [len(phase.duration) for phase in spark] == [100, 150, 100]
