"""The worked figures of the long-term policies: Tang et al., TPDS 2018, and what is fixed beside it."""

import numpy as np
import pytest

from policies import (
    History,
    PolicyNotApplicableError,
    PolicyOptionsError,
    ProblemError,
    SolveTimeoutError,
    solve,
    verify,
)
from policies.documents.evaluation import evaluate_document
from tests.unit.policies.problems import problem_of

INFINITE = float("inf")


def run(policy, capacity, demand, arrivals, *, unserved_wait=False, options=None, **fields):
    """Tasks of every step and the history after the last, each fed into the next."""
    history, waiting, launched = None, np.zeros(len(demand)), []
    for new in arrivals:
        pending = waiting + new
        problem = problem_of(capacity, demand, tasks=pending, **fields)
        answers = []
        for placement in ("pool", "affinity"):
            chosen = {"placement": placement} | (options or {})
            answer = solve(problem, policy, options=chosen, history=history)
            assert verify(problem, answer, history).valid
            answers.append(answer)
        on_pool, on_server = answers
        assert np.array_equal(on_pool.tasks, on_server.tasks)
        launched.append(on_pool.tasks.astype(int).tolist())
        waiting = pending - on_pool.tasks if unserved_wait else np.zeros(len(demand))
        history = on_pool.history
    assert history is not None
    return launched, history


EXAMPLE_3 = ([[100, 100]], [[1, 4], [4, 1]], [[30, 4], [20, 24], [27, 8], [10, 30]])
EXAMPLE_4 = ([[100, 100]], [[1, 2], [1, 1]], [[15, 80], [60, 40]])


@pytest.mark.parametrize("policy", ["lt-drf", "lt-af", "h-mrf"])
def test_example_3_evens_out_over_time(policy):
    launched, history = run(policy, *EXAMPLE_3, unserved_wait=True)
    assert launched == [[24, 4], [4, 24], [23, 8], [8, 23]]
    assert np.sum(launched, axis=0).tolist() == [59, 59]
    assert history.used.tolist() == [[59, 236], [236, 59]]


@pytest.mark.parametrize("policy", ["drf", "asset"])
def test_example_3_does_not_without_memory(policy):
    waiting, launched = np.zeros(2), []
    for new in EXAMPLE_3[2]:
        pending = waiting + new
        problem = problem_of(*EXAMPLE_3[:2], tasks=pending)
        tasks = solve(problem, policy, mode="indivisible").tasks
        waiting = pending - tasks
        launched.append(tasks.astype(int).tolist())
    assert launched == [[24, 4], [20, 20], [22, 12], [20, 20]]


def test_example_4_under_lt_drf():
    launched, history = run("lt-drf", *EXAMPLE_4)
    assert launched == [[15, 70], [35, 30]]
    assert history.used.max(axis=1).tolist() == [100, 100]


def test_example_4_under_lt_af_loses_by_sharing():
    launched, history = run("lt-af", *EXAMPLE_4)
    assert launched == [[15, 70], [42, 16]]
    assert history.used.sum(axis=1).tolist() == [171, 172]
    assert history.sharing_degree[1] == pytest.approx(0.9556, abs=5e-5)
    assert history.sharing_degree[1] == 86 / 90


def test_example_4_under_h_mrf():
    launched, history = run("h-mrf", EXAMPLE_4[0], EXAMPLE_4[1], EXAMPLE_4[2][:1])
    assert history.sharing_degree.tolist() == [1, 1.4]
    launched, history = run("h-mrf", *EXAMPLE_4)
    assert launched == [[15, 70], [40, 20]]
    assert history.used.sum(axis=1).tolist() == [165, 180]
    assert history.sharing_degree.tolist() == [1.375, 1]


def test_whole_task_references_let_everybody_gain():
    launched, history = run("h-mrf", [[10, 10]], [[3, 3], [3, 3]], [[INFINITE] * 2] * 2)
    assert launched == [[2, 1], [1, 2]]
    assert history.sharing_degree.tolist() == [1.5, 1.5]


def test_the_literal_formula_is_reported_beside_the_default():
    launched, history = run("h-mrf", *EXAMPLE_4, options={"literal_alone": True})
    assert launched == [[15, 70], [40, 20]]
    assert history.literal_alone is not None
    # t1: A min(15, 50), min(30, 50); B 50, 50. t2: A 50, 50; B 40, 40.
    assert history.literal_alone.tolist() == [[65, 80], [90, 90]]
    assert history.alone.tolist() == [[40, 80], [90, 90]]


def test_identical_tenants_share_by_weight():
    launched, history = run(
        "h-mrf", [[12, 12]], [[1, 1], [1, 1]], [[INFINITE] * 2] * 3, weight=[2, 1]
    )
    assert np.sum(launched, axis=0).tolist() == [24, 12]
    assert history.sharing_degree.tolist() == [1, 1]


def test_second_stage_tenants_take_what_is_left_and_are_entitled_to_nothing():
    launched, history = run(
        "h-mrf", [[10, 10]], [[1, 1], [1, 1]], [[4, 9]] * 2, best_effort=[False, True]
    )
    assert launched == [[4, 6], [4, 6]]
    assert history.alone.tolist() == [[8, 8], [0, 0]]
    assert np.isnan(history.sharing_degree[1])


def past(used, waiting=(0, 0), elapsed=0.0, step=1.0):
    used = np.array(used, dtype=float)
    return History(
        step=step,
        used=used,
        alone=np.zeros_like(used),
        waiting=np.array(waiting, dtype=float),
        elapsed=elapsed,
    )


def test_who_has_waited_for_the_timeout_goes_first_with_one_task():
    problem = problem_of([[4, 4]], [[1, 1], [1, 1]])
    rich = past([[0, 0], [1000, 1000]], waiting=[0, 3])
    asked = {"placement": "pool"}
    assert solve(problem, "lt-drf", options=asked, history=rich).tasks.tolist() == [4, 0]
    asked["starvation_timeout"] = 3
    answer = solve(problem, "lt-drf", options=asked, history=rich)
    assert answer.tasks.tolist() == [3, 1]
    assert answer.history is not None
    assert answer.history.waiting.tolist() == [0, 0]
    asked["starvation_timeout"] = 3.5
    answer = solve(problem, "lt-drf", options=asked, history=rich)
    assert answer.tasks.tolist() == [4, 0]
    assert answer.history is not None
    assert answer.history.waiting.tolist() == [0, 4]


def test_nobody_waits_who_wants_nothing():
    problem = problem_of([[4, 4]], [[1, 1], [1, 1]], tasks=[10, 0])
    answer = solve(problem, "h-mrf", history=past([[0, 0], [0, 0]], waiting=[2, 2]))
    assert answer.history is not None
    assert answer.history.waiting.tolist() == [0, 0]


@pytest.mark.parametrize(("cap", "tasks"), [(0, 6), (0.5, 8), (0.99, 10), (5, 10)])
def test_the_borrow_cap_stops_who_is_beyond_it(cap, tasks):
    """Entitled to 5 each: one more task is handed out while the cap is not exceeded."""
    problem = problem_of([[10, 10]], [[1, 1], [1, 1]], tasks=[20, 0])
    answer = solve(problem, "h-mrf", options={"borrow_cap": cap})
    assert answer.tasks.tolist() == [tasks, 0]
    assert answer.limited_by == ("level" if tasks < 10 else "resource:cpu", "task_limit")
    assert verify(problem, answer).valid


def test_the_borrow_cap_needs_the_length_of_the_window():
    problem = problem_of([[10, 10]], [[1, 1], [1, 1]])
    with pytest.raises(ProblemError, match="elapsed") as caught:
        solve(problem, "h-mrf", options={"borrow_cap": 1}, history=past([[1, 1], [0, 0]]))
    assert (caught.value.code, caught.value.pointer) == ("history.elapsed", "/history/elapsed")


def test_the_pool_as_one_server_honours_no_selectors_and_real_servers_do():
    fields = {
        "server_labels": [{"zone": "a"}, {"zone": "b"}],
        "selectors": [{"zone": "a"}, {}],
        "tasks": [9, 9],
    }
    problem = problem_of([[3, 3], [3, 3]], [[1, 1], [1, 1]], **fields)
    answer = solve(problem, "h-mrf")
    assert answer.tasks.tolist() == [3, 3]
    workload, row, tasks = answer.placements_by_row()
    assert (row[workload == 0].tolist(), tasks[workload == 0].tolist()) == ([0], [3])
    with pytest.raises(PolicyNotApplicableError, match="one server"):
        solve(problem, "h-mrf", options={"placement": "pool"})


@pytest.mark.parametrize(
    "options",
    [
        {"placement": "best-fit"},
        {"starvation_timeout": 0},
        {"borrow_cap": -1},
        {"literal_alone": 1},
        {"window": 7},
    ],
)
def test_options_outside_the_schema_are_refused(options):
    with pytest.raises(PolicyOptionsError):
        solve(problem_of([[1, 1]], [[1, 1]]), "h-mrf", options=options)


def test_a_time_limit_is_kept():
    problem = problem_of([[1e9, 1e9]], [[1, 1], [1, 1]])
    with pytest.raises(SolveTimeoutError):
        solve(problem, "h-mrf", options={"placement": "pool"}, time_limit=0.2)


def test_an_evaluation_answers_the_history_and_takes_it_back():
    document = {
        "resources": ["cpu", "memory"],
        "servers": [{"capacity": {"cpu": 100, "memory": 100}}],
        "tenants": [{"name": "a"}, {"name": "b"}],
        "workloads": [
            {"tenant": "a", "name": "w", "demand": {"cpu": 1, "memory": 2}, "tasks": 15},
            {"tenant": "b", "name": "w", "demand": {"cpu": 1, "memory": 1}, "tasks": 80},
        ],
        "policy": {"name": "h-mrf"},
    }
    first = evaluate_document(document)
    assert first["history"]["tenants"]["b"]["sharing_degree"]["min"] == 1.4
    document["history"] = first["history"]
    document["workloads"][0]["tasks"], document["workloads"][1]["tasks"] = 60, 40
    second = evaluate_document(document)
    assert [row["tasks"] for row in second["allocations"]] == [40, 20]
    assert second["history"]["elapsed"] == 2
    assert second["history"]["tenants"]["a"]["sharing_degree"] == {
        "resources": {"cpu": 1.375, "memory": 1.375},
        "min": 1.375,
    }
