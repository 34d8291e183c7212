"""What a policy promises and an answer lacks is a failure, and so is what it has too much of."""

from dataclasses import replace

import numpy as np
import pytest

from policies import Problem, policies_available, solve, verify
from tests.unit.policies.problems import problem_of

EVERY = [(info.name, mode) for info in policies_available() for mode in info.modes]
PLACING = [
    ("drfh", "divisible", {}),
    *(
        ("drfh", "indivisible", {"placement": rule})
        for rule in ("best-fit", "first-fit", "affinity")
    ),
    ("static", "indivisible", {}),
    ("mrfs", "indivisible", {}),
    ("h-mrf", "indivisible", {}),
    ("lt-drf", "indivisible", {}),
    ("lt-af", "indivisible", {}),
    ("tda", "indivisible", {"pack": True}),
]
PROVING = [(info.name, mode) for info in policies_available() if info.proof for mode in info.modes
           if mode == "divisible" or info.time_sharing]  # fmt: skip


@pytest.fixture
def problem():
    """DRFH's figure 2, with a server of its own for each tenant, and tasks that are counted."""
    return problem_of(
        [[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]], tasks=[40, 50], contributed_by=[0, 1]
    )


def refusals(problem, answer):
    return [check.name for check in verify(problem, answer).checks if not check.holds]


def with_placements(answer, workload, place, tasks):
    return replace(
        answer,
        placement_piece=np.array(workload, dtype=np.int64),
        placement_class=np.array(place, dtype=np.int64),
        placement_tasks=np.array(tasks, dtype=np.float64),
    )


def placements(answer):
    columns = answer.placement_workload, answer.placement_class, answer.placement_tasks
    return [column.tolist() for column in columns]


def test_no_placements_and_more_than_fits():
    """11.667 tasks each fill the pool as one server; on its servers 10 each is the most."""
    problem = problem_of([[2, 12], [12, 2]], [[0.2, 1], [1, 0.2]])
    answer = solve(problem, "drfh")
    assert answer.tasks.round(9).tolist() == [10, 10]
    (item,) = answer.certificate.rounds
    prices = np.full((2, 2), 0.5)
    forged = with_placements(
        replace(
            answer,
            tasks=np.array([35 / 3, 35 / 3]),
            level=np.array([5 / 6, 5 / 6]),
            objective=5 / 6,
            bound=5 / 6,
            gap=0.0,
            certificate=replace(
                answer.certificate,
                rounds=(replace(item, level=5 / 6, bound=5 / 6, prices=prices),),
            ),
        ),
        [],
        [],
        [],
    )
    assert refusals(problem, forged) == ["placements_add_up"]


@pytest.mark.parametrize(("policy", "mode", "options"), PLACING)
def test_placements_are_there_once_and_whole(problem, policy, mode, options):
    answer = solve(problem, policy, mode=mode, options=options)
    assert refusals(problem, answer) == []
    workload, place, tasks = placements(answer)
    assert workload
    assert "placements_add_up" in refusals(problem, with_placements(answer, [], [], []))
    twice = with_placements(answer, workload + workload[:1], place + place[:1], tasks + tasks[:1])
    assert "placements" in refusals(problem, twice)
    dropped = with_placements(answer, workload[1:], place[1:], tasks[1:])
    assert "placements_add_up" in refusals(problem, dropped)
    less = with_placements(answer, workload, place, [tasks[0] - 0.5, *tasks[1:]])
    assert refusals(problem, less)
    fewer = with_placements(answer, workload, place, [tasks[0] - 1, *tasks[1:]])
    assert refusals(problem, fewer)
    moved = with_placements(answer, workload, [1 - place[0], *place[1:]], tasks)
    assert refusals(problem, moved)


@pytest.mark.parametrize(("policy", "mode"), EVERY)
def test_what_was_placed_under_a_policy_that_places_nothing_is_refused(problem, policy, mode):
    answer = solve(problem, policy, mode=mode)
    if answer.choice.sees_one_pool:
        assert refusals(problem, with_placements(answer, [0], [0], [1.0])) == ["placements"]


@pytest.mark.parametrize(("policy", "mode"), PROVING)
def test_half_of_everything_without_a_certificate(problem, policy, mode):
    answer = solve(problem, policy, mode=mode)
    halved = replace(
        answer,
        tasks=answer.tasks / 2,
        placement_tasks=answer.placement_tasks / 2,
        level=answer.level / 2,
        objective=answer.objective / 2,
        certificate=None,
    )
    assert "promised" in refusals(problem, halved)
    assert refusals(problem, replace(answer, certificate=None)) == ["promised"]


@pytest.mark.parametrize(("policy", "mode"), EVERY)
def test_a_part_that_the_policy_does_not_promise_is_refused(problem, policy, mode):
    answer = solve(problem, policy, mode=mode)
    proven, shared, kept = (solve(problem, name) for name in ("drf", "tda", "h-mrf"))
    if answer.certificate is None:
        assert refusals(problem, replace(answer, certificate=proven.certificate)) == ["promised"]
    if answer.schedule is None:
        assert "promised" in refusals(problem, replace(answer, schedule=shared.schedule))
    else:
        assert "promised" in refusals(problem, replace(answer, schedule=None))
    if answer.history is None:
        assert refusals(problem, replace(answer, history=kept.history)) == ["promised"]
    else:
        assert "promised" in refusals(problem, replace(answer, history=None))


@pytest.mark.parametrize("policy", ["static", "slots", "drfh", "mrfs", "h-mrf", "lt-drf", "lt-af"])
@pytest.mark.parametrize("more", [1, -1])
def test_a_task_more_or_less_that_adds_up(policy, more):
    """One tenant has a server to itself with room to spare: nothing but the policy says how many."""
    problem = problem_of([[8, 8], [8, 8]], [[3, 3], [1, 1]], tasks=[2, 3], contributed_by=[0, 1])
    answer = solve(problem, policy, mode="indivisible")
    assert refusals(problem, answer) == []
    changed = replace(answer, tasks=answer.tasks + np.array([more, 0]))
    if not answer.choice.sees_one_pool:
        placed = answer.placement_tasks.copy()
        placed[answer.placement_workload.tolist().index(0)] += more
        changed = replace(changed, placement_tasks=placed)
    assert refusals(problem, changed)


def test_a_static_task_on_the_server_of_another_tenant():
    problem = problem_of([[9, 9], [9, 9]], [[2, 2], [2, 2]], tasks=[2, 2], contributed_by=[0, 1])
    answer = solve(problem, "static")
    workload, place, tasks = placements(answer)
    assert (workload, place, tasks) == ([0, 1], [0, 1], [2, 2])
    assert refusals(problem, with_placements(answer, [0, 1], [1, 1], [2, 2])) == ["own_servers"]
    shared = with_placements(answer, [0, 0, 1], [0, 1, 1], [1, 1, 2])
    assert refusals(problem, shared) == ["own_servers"]


@pytest.mark.parametrize(("policy", "mode"), EVERY)
@pytest.mark.parametrize("name", ["objective", "bound", "gap"])
@pytest.mark.parametrize("value", [0.25, 0.0, 1e-9, float("nan"), float("inf")])
def test_an_altered_objective_bound_or_gap(problem, policy, mode, name, value):
    answer = solve(problem, policy, mode=mode)
    was = getattr(answer, name)
    if np.isclose(was, value, rtol=1e-9, atol=1e-9, equal_nan=True):
        value = 0.125
    # Infinity is no number of an answer at all.
    expected = "shapes" if np.isinf(value) else "objective"
    assert refusals(problem, replace(answer, **{name: value})) == [expected]


def test_moved_tasks_are_counted_again(problem):
    answer = solve(problem, "drfh", mode="indivisible")
    assert refusals(problem, replace(answer, moved=0)) == ["moved"]
    assert refusals(problem, replace(solve(problem, "drf"), moved=0)) == ["moved"]


def test_a_workload_that_stopped_while_its_next_task_fitted():
    """The answer to another problem, in which nobody came last: nothing fits beside it either."""
    problem = problem_of(
        [[3, 4, 3], [2, 6, 3], [2, 5, 2]],
        [[0, 2, 2], [0, 1, 1], [1, 3, 3]],
        server_count=[2, 1, 2],
        tasks=[5, 2, 3],
        weight=[0.5, 2, 0.5],
        best_effort=[True, False, False],
        priority=[0, 1, 0],
    )
    other = replace(problem, best_effort=np.zeros(3, dtype=np.bool_))
    options = {"placement": "two-choices"}
    answers = [
        solve(each, "drfh", mode="indivisible", options=options) for each in (problem, other)
    ]
    assert [answer.tasks.tolist() for answer in answers] == [[4, 2, 1], [2, 2, 1]]
    assert refusals(problem, answers[0]) == []
    assert refusals(problem, answers[1]) == ["handed_out"]


def test_the_order_of_launches_is_found_by_its_last_task():
    """Sixteen tasks fit; the tenth and the eleventh of the two change places, and nothing else."""
    problem = Problem.create(
        resources=["cpu"], capacity=[[16]], tenants=["a", "b"], demand=[[1], [1]]
    )
    answer = solve(problem, "drf", mode="indivisible")
    assert answer.tasks.tolist() == [8, 8]
    unfair = replace(
        answer, tasks=np.array([9.0, 7.0]), level=np.array([9 / 16, 7 / 16]), objective=7 / 16
    )
    assert refusals(problem, unfair) == ["nobody_passed_over"]
