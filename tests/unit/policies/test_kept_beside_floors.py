"""Kept tasks beside guarantees and own servers: figures, a plain reference, forgeries."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    Guarantee,
    Limit,
    ParsedProblem,
    Problem,
    allocation_to_document,
    current_placements_of,
    guarantees_unmet,
    problem_from_document,
    problem_to_document,
    verify,
    verify_answer,
)
from tests.examples import examples
from tests.references.floors import fill_with_floors
from tests.references.kept_tasks import kept_pieces
from tests.unit.policies.test_filling_properties import PLACEMENTS, tasks_on_servers
from tests.unit.policies.test_kept_tasks import (
    keeping,
    on_existing_servers,
    two_tenants,
    whole,
    with_kept,
)
from tests.unit.policies.trees import problems_with_guarantees


def guaranteed(tenant, gpus, **where):
    return Guarantee("tenant", tenant, np.array([float(gpus)]), where)


@st.composite
def pools_with_guarantees(draw):
    """Draw problems with several servers of a row, and rows that offer nothing."""
    problem = draw(problems_with_guarantees())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    offers = rng.random((problem.k, 1)) < 0.9
    return replace(
        problem,
        server_count=rng.integers(1, 4, problem.k),
        capacity=problem.capacity * offers,
        tasks=np.minimum(problem.tasks, 12),
    )


def test_kept_tasks_count_for_a_guarantee():
    """b is guaranteed 5 of 8 GPUs and keeps 3; with the next 2 its floor is met."""
    problem = two_tenants(guarantees=[guaranteed(1, 5)])
    assert whole(problem).tasks.tolist() == [3, 5]
    answer = whole(keeping(problem, (1, 0, 1, 1, 3)))
    assert answer.tasks.tolist() == [3, 5]
    assert answer.floors.met.tolist() == [0, 5]


def test_a_floor_has_what_kept_tasks_of_others_leave():
    problem = two_tenants(guarantees=[guaranteed(1, 5)])
    answer = whole(keeping(problem, (0, 0, 0, 2, 3)))
    assert answer.tasks.tolist() == [6, 2]
    assert (answer.floors.floor.tolist(), answer.floors.met.tolist()) == ([0, 5], [0, 2])
    (unmet,) = guarantees_unmet(answer)
    assert (unmet["node"], unmet["met"], unmet["limited_by"]) == (
        {"tenant": "b"}, 0.4, ["resource:gpu"],
    )  # fmt: skip


def test_kept_tasks_on_other_servers_than_the_guarantees_do_not_count_for_it():
    """4 tasks of b are guaranteed on new servers. It keeps 2 on old ones, and wants 8, or 4."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[4], [4]], server_labels=[{"age": "old"}, {"age": "new"}],
        tenants=["a", "b"], demand=[[1], [1]], tasks=[8, 8],
        guarantees=[guaranteed(1, 4, age=("new",))],
    )  # fmt: skip
    kept = (1, 0, 0, 1, 2)
    answer = whole(keeping(problem, kept))
    assert (answer.tasks.tolist(), answer.floors.met.tolist()) == ([2, 6], [0, 4])
    answer = whole(keeping(replace(problem, tasks=np.array([8.0, 4.0])), kept))
    assert (answer.tasks.tolist(), answer.floors.floor.tolist()) == ([4, 4], [0, 2])
    assert verify(answer.problem, answer).valid


def test_a_kept_task_counts_for_the_guarantee_with_the_fewest_servers():
    """4 tasks of b are guaranteed, 2 of them on new servers, where it keeps 2."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[4], [4]], server_labels=[{"age": "old"}, {"age": "new"}],
        tenants=["a", "b"], demand=[[1], [1]], tasks=[8, 8],
        guarantees=[guaranteed(1, 4), guaranteed(1, 2, age=("new",))],
    )  # fmt: skip
    answer = whole(keeping(problem, (1, 1, 0, 1, 2)))
    assert tasks_on_servers(answer) == {(0, 0): 2, (1, 0): 2, (0, 1): 2, (1, 1): 2}
    assert verify(answer.problem, answer).valid


@pytest.mark.parametrize(
    ("kept", "met", "servers"),
    [
        # Tasks of others leave one place on the own server, so that one task is guaranteed.
        ((1, 0, 0, 1, 3), 1, {(0, 0): 1, (1, 0): 3, (0, 1): 3, (1, 1): 1}),
        # Own tasks elsewhere count for the floor.
        ((0, 1, 0, 1, 2), 4, {(0, 0): 2, (1, 0): 2, (0, 1): 2, (1, 1): 2}),
        ((0, 1, 0, 1, 4), 4, {(0, 1): 4, (1, 0): 4}),
    ],
)
def test_own_servers_beside_kept_tasks(kept, met, servers):
    """a contributed the first of two servers of 4 GPUs. Its floor is 4 tasks."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[4], [4]], tenants=["a", "b"], demand=[[1], [1]],
        contributed_by=[0, 1], own_servers=[True, False],
    )  # fmt: skip
    answer = whole(keeping(problem, kept))
    assert answer.floors.met.tolist() == answer.floors.floor.tolist() == [met, 0]
    assert tasks_on_servers(answer) == servers
    assert verify(answer.problem, answer).valid


def test_what_a_tenant_keeps_is_part_of_what_it_is_guaranteed():
    """a is guaranteed 4 of 8 GPUs and keeps 4 tasks of its less important workload."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], tenants=["a", "c"], workload_tenant=[0, 0, 1],
        demand=[[1], [1], [1]], tasks=[4, 4, 8], priority=[0, 1, 0],
        guarantees=[guaranteed(0, 4)],
    )  # fmt: skip
    assert whole(problem).tasks.tolist() == [0, 4, 4]
    assert whole(keeping(problem, (0, 0, 0, 1, 4))).tasks.tolist() == [4, 0, 4]
    both = whole(keeping(problem, (0, 0, 0, 1, 4), (2, 0, 0, 1, 2)))
    assert (both.tasks.tolist(), guarantees_unmet(both)) == ([4, 0, 4], [])


def test_what_a_tenant_keeps_elsewhere_is_no_part_of_what_it_is_guaranteed():
    """a is guaranteed 4 new GPUs and keeps 2 tasks of another workload on old ones."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[4], [4]], server_labels=[{"age": "old"}, {"age": "new"}],
        tenants=["a", "c"], workload_tenant=[0, 0, 1], demand=[[1], [1], [1]], tasks=[2, 4, 8],
        priority=[0, 1, 0], guarantees=[guaranteed(0, 4, age=("new",))],
    )  # fmt: skip
    answer = whole(keeping(problem, (0, 0, 0, 1, 2)))
    assert (answer.tasks.tolist(), answer.floors.met.tolist()) == ([2, 4, 2], [0, 4, 0])
    assert verify(answer.problem, answer).valid


def test_own_servers_do_not_give_what_kept_tasks_of_the_tenant_hold_there():
    problem = Problem.create(
        resources=["gpu"], capacity=[[4], [4]], tenants=["a", "b"], workload_tenant=[0, 0, 1],
        demand=[[1], [1], [1]], tasks=[4, 4, 8], priority=[0, 1, 0], contributed_by=[0, -1],
        own_servers=[True, False],
    )  # fmt: skip
    answer = whole(keeping(problem, (0, 0, 0, 1, 4)))
    assert answer.tasks.tolist() == [4, 0, 4]
    assert verify(answer.problem, answer).valid


@pytest.mark.parametrize(("kept", "tasks"), [(4, [4, 4, 0]), (2, [4, 2, 2])])
def test_own_servers_are_one_after_the_other_however_they_are_grouped(kept, tasks):
    """b keeps tasks on the first server of a, which has two of 4 GPUs; 4 are guaranteed to c."""
    found = []
    for count in ([1, 1], [2]):
        problem = Problem.create(
            resources=["gpu"], capacity=[[4]] * len(count), server_count=count,
            contributed_by=[0] * len(count), tenants=["a", "b", "c"], demand=[[1]] * 3,
            tasks=[4, 4, 4], own_servers=[True, False, False], guarantees=[guaranteed(2, 4)],
        )  # fmt: skip
        found.append(whole(keeping(problem, (1, 0, 0, 1, kept))).tasks.tolist())
    assert found == [tasks, tasks]


def test_own_servers_leave_kept_tasks_their_part_of_a_limit():
    """Each of a, b and c contributed 2 GPUs, a and b with floors. They may have 4 together."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[2], [2], [2]], tenants=["a", "b", "c"],
        demand=[[1], [1], [1]], tasks=[2, 2, 2], contributed_by=[0, 1, 2],
        own_servers=[True, True, False], groups=["g"], tenant_group=[0, 0, 0],
        limits=[Limit("group", 0, np.array([4.0]))],
    )  # fmt: skip
    answer = whole(keeping(problem, (1, 1, 0, 1, 2), (2, 2, 0, 1, 2)))
    assert answer.tasks.tolist() == [0, 2, 2]
    assert verify(answer.problem, answer).valid


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(500)
@given(problem=with_kept(pools_with_guarantees()))
def test_beside_floors_they_come_first_as_in_the_plain_reference(placement, problem):
    answer = whole(problem, placement=placement)
    guaranteed, tasks = fill_with_floors(problem, placement)
    assert answer.floors.met.tolist() == guaranteed
    assert answer.tasks.tolist() == tasks
    placed = tasks_on_servers(answer)
    for (j, _, server), number in kept_pieces(problem).items():
        assert placed[j, server] >= number
    found = verify(problem, answer)
    assert found.valid, [item for item in found.checks if not item.holds]


@examples(400)
@given(problem=with_kept(pools_with_guarantees()), data=st.data())
def test_beside_floors_tasks_that_run_may_stay_too(problem, data):
    tasks = st.sampled_from([0.0, 1.0, 2.0, 4.0, np.inf])
    before = np.array(data.draw(st.lists(tasks, min_size=problem.n, max_size=problem.n)))
    running = current_placements_of(whole(replace(problem, tasks=before, kept_placements=None)))
    answer = whole(problem, running)
    assert answer.tasks.tolist() == whole(problem).tasks.tolist()
    assert verify(problem, answer, running=running).valid
    placed = tasks_on_servers(answer)
    for (j, _, server), number in kept_pieces(problem).items():
        assert placed[j, server] >= number


@examples(300)
@given(problem=with_kept(pools_with_guarantees()))
def test_beside_floors_answers_are_written_and_read(problem):
    problem = on_existing_servers(problem)
    parsed = problem_from_document(
        problem_to_document(ParsedProblem(problem, "drfh", "indivisible"))
    )
    document = allocation_to_document(whole(problem), include=["certificate", "placements"])
    assert verify_answer(parsed, document, parsed.choice).valid


@pytest.mark.parametrize(
    "kept",
    [
        [(0, 0, 2, 1, 1)],
        [(1, 0, 1, 1, 1), (1, 0, 2, 1, 2), (0, 0, 2, 1, 1)],
        [(1, 0, 2, 1, 1), (0, 0, 2, 1, 1)],
        [(1, 0, 2, 1, 3)],
    ],
    ids=["dropped", "moved", "fewer", "another tenant's"],
)
def test_an_answer_to_other_kept_tasks_is_refused(kept):
    """b, guaranteed 5 of 12 GPUs, keeps 3 on the last server, and a keeps 1 there."""
    problem = replace(
        two_tenants(tasks=(3, 5), guarantees=[guaranteed(1, 5)]), server_count=np.array([3])
    )
    true = whole(keeping(problem, (1, 0, 2, 1, 3), (0, 0, 2, 1, 1)))
    assert verify(true.problem, true).valid
    forged = replace(whole(keeping(problem, *kept)), problem=true.problem)
    assert not verify(true.problem, forged).valid
