"""Schedules on the clock, in order and as documents."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import PolicyNotApplicableError, slot_at, solve, timetable
from policies.documents.evaluation import evaluate_document
from policies.time_division.slot_order import order_of_slots, tasks_moved
from tests.examples import examples
from tests.unit.policies.problems import problem_of

EXAMPLE = {
    "resources": ["cpu", "memory"],
    "servers": [{"name": "pool", "capacity": {"cpu": 15, "memory": 15}}],
    "tenants": [{"name": "u1"}, {"name": "u2"}],
    "workloads": [
        {"tenant": "u1", "name": "a", "demand": {"cpu": 5, "memory": 2}},
        {"tenant": "u2", "name": "b", "demand": {"cpu": 3, "memory": 3.5}},
    ],
    "policy": {"name": "tda"},
    "include": ["schedule", "placements"],
}


def test_the_document_of_a_schedule():
    schedule = evaluate_document(EXAMPLE)["schedule"]
    assert list(schedule) == ["objective", "bound", "lp_bound", "gap", "slots"]
    assert schedule["objective"] == pytest.approx(21 / 41)
    first, second = schedule["slots"]
    assert first["allocations"] == [{"tenant": "u1", "workload": "a", "tasks": 3}]
    assert second["allocations"] == [
        {"tenant": "u1", "workload": "a", "tasks": 1},
        {"tenant": "u2", "workload": "b", "tasks": 3},
    ]
    assert first["fraction"] + second["fraction"] == pytest.approx(1, abs=1e-15)


def test_other_policies_have_no_schedule():
    answer = evaluate_document(EXAMPLE | {"policy": {"name": "drf"}})
    assert answer["schedule"] is None
    with pytest.raises(ValueError, match="is not time-sharing"):
        timetable(solve(problem_of([[1]], [[1]]), "drf"))


def test_packed_slots_name_their_servers():
    servers = [
        {"name": "big", "capacity": {"cpu": 5, "memory": 5}, "labels": {"zone": "a"}},
        {"name": "small", "capacity": {"cpu": 3, "memory": 4}, "count": 2},
    ]
    workloads = [dict(EXAMPLE["workloads"][0], server_selector={"zone": "a"})]
    workloads += EXAMPLE["workloads"][1:]
    policy = {"name": "tda", "options": {"pack": True}}
    changes = {"servers": servers, "workloads": workloads, "policy": policy}
    answer = evaluate_document(EXAMPLE | changes)
    slots = answer["schedule"]["slots"]
    # Only the big server takes a task of u1; u2 always runs on the small ones.
    for slot in slots:
        for row in slot["allocations"]:
            assert sum(item["tasks"] for item in row["servers"]) == row["tasks"]
            if row["workload"] == "a":
                assert row["servers"] == [{"server": "big", "tasks": 1}]
    named = {item["server"] for row in slots[0]["allocations"] for item in row["servers"]}
    assert named == {"big", "small-0001", "small-0002"}
    placed = {(row["workload"]["name"], row.get("server", "range")) for row in answer["placements"]}
    assert ("a", "big") in placed


def test_slots_on_the_clock_cover_the_period_once():
    answer = solve(problem_of([[15, 15]], [[5, 2], [3, 3.5]]), "tda")
    table = timetable(answer)
    assert [(item.start, item.end) for item in table.intervals] == [(0, 965), (965, 3600)]
    assert table.gap_before == answer.schedule.gap
    first = (3 * 965 + 1 * 2635) / 3600 / 3
    second = 3 * 2635 / 3600 * 3.5 / 15
    assert table.objective == pytest.approx(min(first, second), abs=1e-15)
    assert 0 < table.gap == pytest.approx(1 - min(first, second) / (21 / 41))
    moments = (0, 964.9, 965, 3599, 3600, -1, 7200 + 965)
    assert [slot_at(table, moment) for moment in moments] == [0, 0, 1, 1, 0, 1, 1]
    short = timetable(answer, 1)
    assert [(item.start, item.end, item.slot) for item in short.intervals] == [(0, 1, 1)]
    with pytest.raises(ValueError, match="at least 1"):
        timetable(answer, 0)


@examples(500)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=6), st.integers(1, 10_000))
def test_every_second_has_one_slot(parts, period):
    problem = problem_of([[1]], [[1]])
    answer = solve(problem, "tda")
    fraction = np.array(parts) / sum(parts)
    object.__setattr__(answer.schedule, "fraction", fraction)
    object.__setattr__(answer.schedule, "tasks", np.ones((len(parts), 1), dtype=np.int64))
    intervals = timetable(answer, period).intervals
    assert intervals[0].start == 0
    assert intervals[-1].end == period
    assert all(a.end == b.start for a, b in itertools.pairwise(intervals))
    for interval in intervals[:-1]:
        assert interval.end - interval.start == math.floor(
            parts[interval.slot] * period / sum(parts) + 1e-9
        )


@examples(200)
@given(
    st.lists(
        st.lists(st.integers(0, 9), min_size=3, max_size=3),
        min_size=1,
        max_size=7,
        unique_by=tuple,
    )
)
def test_slots_follow_each_other_with_the_fewest_tasks_moved(slots):
    on_server = [np.array([row]) for row in slots]
    order = order_of_slots(on_server)
    moved = tasks_moved(on_server)
    assert sorted(order) == list(range(len(slots)))
    assert slots[order[0]] == max(slots)

    def length(tour):
        return sum(int(moved[a, b]) for a, b in zip(tour, [*tour[1:], tour[0]], strict=True))

    first, *others = order
    assert length(order) == min(length([first, *rest]) for rest in itertools.permutations(others))


def test_many_slots_are_ordered_by_a_heuristic_that_visits_each_once():
    slots = [np.array([[17 * i % 20, i % 3]]) for i in range(20)]
    order = order_of_slots(slots)
    assert sorted(order) == list(range(20))
    moved = tasks_moved(slots)
    tour = sum(int(moved[a, b]) for a, b in zip(order, [*order[1:], order[0]], strict=True))
    assert tour <= sum(int(moved[i, (i + 1) % 20]) for i in range(20))


def test_selectors_need_packing():
    problem = problem_of(
        [[4, 4]], [[1, 1]], selectors=[{"zone": "a"}], server_labels=[{"zone": "a"}]
    )
    with pytest.raises(PolicyNotApplicableError) as error:
        solve(problem, "tda")
    assert error.value.code == "policy.no_placement"
    assert solve(problem, "tda", options={"pack": True}).tasks.tolist() == [4]
