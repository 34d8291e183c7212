"""Figures of whole tasks: one pool, real servers, slots, and what the answers say."""

from dataclasses import replace

import numpy as np
import pytest

from policies import PolicyNotApplicableError, PolicyOptionsError, solve, verify
from policies.documents.evaluation import evaluate_document
from tests.unit.policies.problems import problem_of


def tasks_of(policy, capacity, demand, options=None, **fields):
    problem = problem_of(capacity, demand, **fields)
    answer = solve(problem, policy, mode="indivisible", options=options)
    assert verify(problem, answer).valid, verify(problem, answer)
    return answer.tasks.tolist()


def test_the_drf_paper_s_example():
    assert tasks_of("drf", [[9, 18]], [[1, 4], [3, 1]]) == [3, 2]


@pytest.mark.parametrize(
    ("tasks", "expected"), [([50, 10, 10], [35, 10, 10]), ([50, 10, 14], [27, 10, 14])]
)
def test_example_2_of_the_h_mrf_paper_claiming_more_tasks_pays(tasks, expected):
    demand = [[1, 2], [2, 1], [1, 4]]
    assert tasks_of("drf", [[120, 120]], demand, tasks=tasks) == expected


def test_table_2_1_of_the_tda_thesis():
    assert tasks_of("drf", [[16, 12]], [[6, 1.5], [1, 3]]) == [2, 3]


def test_the_tda_example_s_drf_allocation():
    assert tasks_of("drf", [[15, 15]], [[5, 2], [3, 3.5]]) == [1, 3]


@pytest.mark.parametrize(
    ("placement", "expected"),
    [("best-fit", [10, 10]), ("affinity", [10, 10]), ("first-fit", [6, 6])],
)
def test_figure_2_of_the_drfh_paper(placement, expected):
    answer = tasks_of("drfh", [[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]], {"placement": placement})
    assert answer == expected


def test_best_fit_puts_a_task_where_the_ratio_of_what_is_left_is_its_own():
    # The task (1/10, 1/30) on servers with (1/5, 1/15) and (1/8, 1/4) of the pool: H 0 and 5/3.
    problem = problem_of([[12, 15], [24, 4], [84, 41]], [[12, 2]], tasks=[1])
    answer = solve(problem, "drfh", mode="indivisible")
    assert answer.placements_by_range()[1].tolist() == [1]


def test_whole_tasks_fill_to_the_last_unit():
    # 0.1 + 0.1 + 0.1 is not 0.3 in binary; three tasks of 0.1 fill 0.3 all the same.
    assert tasks_of("drfh", [[0.3, 0.3]], [[0.1, 0.1]]) == [3]
    assert tasks_of("drf", [[0.3, 0.3]], [[0.1, 0.1]]) == [3]
    assert tasks_of("drf", [[5, 5]], [[5 / 9, 5 / 9]]) == [9]


def test_equal_shares_go_by_position():
    # 3 × 0.1 and 0.3 are equal shares: the first tenant launches first.
    demand = [[0.3, 0.3], [0.1, 0.1]]
    assert tasks_of("drf", [[0.9, 0.9]], demand) == [2, 3]
    assert tasks_of("drf", [[0.9, 0.9]], demand[::-1]) == [6, 1]


def test_a_tenant_s_next_task_comes_from_its_highest_priority_workload_that_fits():
    fields = {"t": 1, "workload_tenant": [0, 0], "priority": [0, 1]}
    assert tasks_of("drfh", [[5, 5]], [[1, 1], [2, 2]], **fields) == [1, 2]


def test_best_effort_tenants_get_what_is_left():
    demand = [[1, 1], [2, 2]]
    assert tasks_of("drfh", [[7, 7]], demand, best_effort=[True, False]) == [1, 3]


@pytest.mark.parametrize("policy", ["drf", "drfh"])
def test_every_reason_of_the_closed_list(policy):
    problem = problem_of(
        [[4, 4, 0], [2, 8, 0]],
        [[1, 1, 0], [1, 3, 0], [13, 1, 0], [1, 1, 1], [1e-12, 1, 0]],
        tasks=[2, np.inf, np.inf, np.inf, np.inf],
    )
    answer = solve(problem, policy, mode="indivisible")
    assert answer.limited_by == (
        "task_limit",
        "resource:memory",
        "no_server_large_enough",
        "resource_absent",
        "out_of_range",
    )
    assert answer.tasks[2:].tolist() == [0, 0, 0]
    assert verify(problem, answer).valid


def test_a_selector_that_matches_nothing_leaves_no_eligible_server():
    problem = problem_of([[4, 4]], [[1, 1]], selectors=[{"zone": "a"}])
    assert solve(problem, "drfh", mode="indivisible").limited_by == ("no_eligible_server",)


def test_identical_servers_with_identical_tasks_are_one_range():
    problem = problem_of([[4, 4]], [[1, 1]], server_count=[1000], tasks=[1002])
    answer = solve(problem, "drfh", mode="indivisible", options={"placement": "first-fit"})
    workload, row, offset, servers, tasks = (
        column.tolist() for column in answer.placements_by_range()
    )
    assert (workload, row) == ([0, 0], [0, 0])
    assert (offset, servers, tasks) == ([0, 250], [250, 1], [4, 2])
    assert answer.classes.servers.tolist() == [250, 1, 749]


def test_ranges_are_named_in_a_document():
    document = {
        "resources": ["cpu"],
        "servers": [{"name": "node", "count": 3, "capacity": {"cpu": "2"}}],
        "tenants": [{"name": "a"}],
        "workloads": [{"tenant": "a", "name": "w", "demand": {"cpu": 1}, "tasks": 5}],
        "policy": {"name": "drfh", "mode": "indivisible"},
        "include": ["placements"],
    }
    answer = evaluate_document(document)
    first, second = answer["placements"]
    assert first["tasks"] == 2
    assert (first["servers"]["first"], first["servers"]["last"]) == ("node-0001", "node-0002")
    assert (second["server"], second["tasks"]) == ("node-0003", 1)
    assert answer["allocations"][0]["tasks"] == 5


@pytest.mark.parametrize("policy", ["drf", "asset", "slots", "single-resource"])
def test_policies_on_one_pool_refuse_selectors(policy):
    problem = problem_of([[4, 4]], [[1, 1]], selectors=[{"zone": "a"}])
    with pytest.raises(PolicyNotApplicableError) as error:
        solve(problem, policy, mode="indivisible")
    assert error.value.code == "policy.no_placement"


def test_asset_fairness_in_whole_tasks():
    assert tasks_of("asset", [[9, 18]], [[1, 4], [3, 1]]) == [3, 2]
    assert tasks_of("asset", [[30, 30]], [[1, 3], [1, 1]]) == [6, 12]
    assert tasks_of("asset", [[21, 21]], [[3, 2], [4, 1]]) == [3, 3]


def test_slots_cut_the_largest_server_and_round_tasks_up():
    # Slots of 1 CPU, 2 GB: 4 and 2 of them. A's task takes one; B's ceil(5 / 2) = 3.
    capacity, demand = [[4, 8], [2, 9]], [[0.5, 2], [1, 5]]
    assert tasks_of("slots", capacity, demand, {"slots_per_largest_server": 4}) == [3, 1]
    assert tasks_of("slots", capacity, demand, {"slot": {"cpu": 2, "memory": 4}}) == [1, 1]


def test_a_single_resource_is_divided_whatever_the_others():
    demand = [[1, 4], [3, 1]]
    assert tasks_of("single-resource", [[9, 18]], demand) == [4, 1]
    assert tasks_of("single-resource", [[12, 40]], demand, {"resource": "memory"}) == [3, 3]


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("drf", {"placement": "best-fit"}),
        ("drfh", {"placement": "worst-fit"}),
        ("drfh", {"seed": -1}),
        ("slots", {"slots_per_largest_server": 0}),
        ("slots", {"slot": {"cpu": 1}, "slots_per_largest_server": 2}),
        ("slots", {"slot": {"gpu": 1}}),
        ("single-resource", {"resource": "gpu"}),
    ],
)
def test_options_that_do_not_fit_are_refused(policy, options):
    with pytest.raises(PolicyOptionsError):
        solve(problem_of([[4, 4]], [[1, 1]]), policy, mode="indivisible", options=options)


def test_verify_rejects_tampering():
    problem = problem_of([[4, 8]], [[1, 1], [1, 2]], server_count=[3])
    answer = solve(problem, "drfh", mode="indivisible")
    assert verify(problem, answer).valid
    fewer = answer.tasks.copy()
    fewer[0] -= 1
    placed = answer.placement_tasks.copy()
    placed[0] -= 1
    moved = answer.placement_class.copy()
    moved[0] = (moved[0] + 1) % answer.classes.count
    sizes = answer.classes.servers.copy()
    sizes[0] += 1
    forgeries = [
        replace(answer, tasks=fewer),
        replace(answer, tasks=fewer, placement_tasks=placed),
        replace(answer, placement_tasks=placed),
        replace(answer, limited_by=("level", "level")),
        replace(answer, classes=replace(answer.classes, servers=sizes)),
    ]
    for forgery in forgeries:
        assert not verify(problem, forgery).valid
