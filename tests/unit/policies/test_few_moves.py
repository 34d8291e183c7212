"""Tasks that cannot all stay where they run: few of them move."""

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import CurrentPlacements, Limit, Problem, current_placements_of, solve, verify
from policies.errors import SolveTimeoutError
from policies.finishing import few_moves, placement_stickiness
from policies.model.server_classes import each_row_alone
from policies.model.tasks_on_servers import TasksOnServers
from tests.examples import examples
from tests.references.fewest_moves import fewest_taken
from tests.unit.policies.problems import problem_of
from tests.unit.policies.test_filling_properties import tasks_on_servers


def whole(problem, running=None):
    return solve(problem, "drfh", mode="indivisible", running=running)


COLUMNS = ("workload", "row", "offset", "servers", "tasks")


def placements(*entries):
    """Of (workload, row, tasks on its only server)."""
    workload, row, tasks = np.array(entries).T
    one = np.ones(len(row), np.int64)
    columns = (workload, row, 0 * one, one, tasks * 1.0)
    return CurrentPlacements(**dict(zip(COLUMNS, columns, strict=True)))


def failed(problem, answer, running):
    checks = verify(problem, answer, running=running).checks
    return {check.name for check in checks if not check.holds}


@pytest.fixture(autouse=True, scope="module")
def _without_haste():
    """Let nodes alone end searches, as the machine may be busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_moves, "SECONDS", np.inf)
        yield


# Two tasks on each of four servers, beside which a task of three has no room.
FOUR = problem_of([[4]] * 4, [[1], [3]], tasks=[8, 1])
TWO_EACH = placements((0, 0, 2), (0, 1, 2), (0, 2, 2), (0, 3, 2))


def test_one_task_makes_room_for_a_larger_one():
    answer = whole(FOUR, TWO_EACH)
    assert answer.tasks.tolist() == [8, 1]
    assert answer.moved == 1
    assert not failed(FOUR, answer, TWO_EACH)


def placed(answer, of_server):
    """Change an answer so that each server runs these tasks of each workload."""
    entries = [(j, s, n) for s, tasks in enumerate(of_server) for j, n in enumerate(tasks) if n]
    workload, server, tasks = np.array(entries).T
    fresh = whole(answer.problem)
    return replace(
        answer,
        classes=replace(
            fresh.classes,
            first_row=np.arange(4), servers=np.ones(4, np.int64), offset=np.zeros(4, np.int64),
            allowed_kinds=np.ones((2, 4), bool),
        ),
        placement_piece=workload, placement_class=server, placement_tasks=tasks * 1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("of_server", "moved", "accepted"),
    [
        ([(1, 1), (3, 0), (2, 0), (2, 0)], 1, True),
        ([(2, 0), (2, 0), (3, 0), (1, 1)], 1, True),
        ([(1, 1), (3, 0), (2, 0), (2, 0)], 0, False),
        # One more changes its place than needs to.
        ([(1, 1), (1, 0), (2, 0), (4, 0)], 2, True),
        # As many as after the fresh placement move, or more, to other servers.
        ([(1, 1), (0, 0), (3, 0), (4, 0)], 3, False),
        ([(0, 1), (0, 0), (4, 0), (4, 0)], 4, False),
    ],
)
def test_placements_that_move_as_many_as_a_fresh_one_are_refused(of_server, moved, accepted):
    fresh = {(0, 0): 1, (1, 0): 1, (0, 1): 4, (0, 2): 3}
    assert tasks_on_servers(whole(FOUR)) == fresh
    forged = replace(placed(whole(FOUR, TWO_EACH), of_server), moved=moved)
    refused = failed(FOUR, forged, TWO_EACH)
    assert (not refused) is accepted, refused
    if not accepted:
        assert refused & {"placed_by_rule", "moved"}


def test_a_needless_move_is_refused_where_all_tasks_can_stay():
    """The task of three has room beside the others, so that nothing has to move."""
    running = placements((0, 0, 4), (0, 2, 3), (0, 3, 1))
    endless = problem_of([[4]] * 4, [[1], [3]], tasks=[8, np.inf], weight=[8, 1])
    for problem in (FOUR, endless):
        answer = whole(problem, running)
        assert answer.moved == 0
        more = int(answer.tasks[1]) - 1
        forged = placed(answer, [(3, 0), (1, 1), (3, 0), (1, more)])
        forged = replace(forged, moved=1)
        assert failed(problem, forged, running) == {"placed_by_rule"}


@pytest.mark.parametrize("others", [{}, {"server_labels": [{"k": "a"}, {"k": "a"}, {"k": "b"}]}])
def test_no_room_is_left_for_what_is_wanted(others):
    """The fewest moves without that condition would leave room for a task of four.

    Tasks of three on servers of their own are smaller, and have no room anywhere.
    """
    if others:
        others["selectors"] = [{"k": "a"}] * 3 + [{"k": "b"}]
        problem = problem_of(
            [[9], [3], [3]], [[1], [4], [4], [3]], tasks=[3, 0, 3, np.inf], **others
        )
    else:
        problem = problem_of([[9], [3]], [[1], [4], [4]], tasks=[3, 0, 3])
    tasks = problem.tasks.copy()
    tasks[:2] = np.inf
    running = current_placements_of(whole(replace(problem, tasks=tasks)))
    answer = whole(problem, running)
    assert answer.tasks.tolist()[:3] == [3, 0, 1]
    assert answer.moved == 1
    assert (0, 1) in tasks_on_servers(answer)


def test_kept_tasks_never_move_for_others():
    """Kept tasks on all servers but one: only its tasks can make room."""
    kept = placements((0, 0, 2), (0, 1, 2), (0, 3, 2))
    problem = replace(FOUR, kept_placements=kept)
    answer = whole(problem, TWO_EACH)
    assert tasks_on_servers(answer)[1, 2] == 1
    assert answer.moved == 1
    assert not failed(problem, answer, TWO_EACH)
    forged = placed(answer, [(1, 1), (3, 0), (2, 0), (2, 0)])
    assert "placed_by_rule" in failed(problem, forged, TWO_EACH)


whole_numbers = st.integers(1, 5)


@st.composite
def mixed_pools(draw, most_per_row, shrinks=(0,)):
    """Tasks of mixed sizes on rows of equal servers, before and after other numbers are asked for."""
    rows, tenants = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    pairs = st.tuples(whole_numbers, whole_numbers)
    problem = Problem.create(
        resources=["cpu", "gpu"],
        capacity=draw(st.lists(st.tuples(*[st.integers(4, 12)] * 2), min_size=rows, max_size=rows)),
        server_count=draw(st.lists(st.integers(1, most_per_row), min_size=rows, max_size=rows)),
        tenants=[f"t{i}" for i in range(tenants)],
        workload_tenant=range(tenants),
        demand=draw(st.lists(pairs, min_size=tenants, max_size=tenants)),
        tasks=np.full(tenants, np.inf),
    )
    numbers = st.sampled_from([0.0, 1.0, 3.0, 9.0, np.inf])
    lists = st.lists(numbers, min_size=tenants, max_size=tenants)
    before, after = (replace(problem, tasks=np.array(draw(lists))) for _ in range(2))
    less = draw(st.sampled_from(shrinks))
    return before, replace(after, capacity=after.capacity - less)


def moves(before, after):
    ran, runs = Counter(), Counter()
    for (j, _), n in before.items():
        ran[j] += n
    for (j, _), n in after.items():
        runs[j] += n
    stayed = sum(min(n, after[where]) for where, n in before.items())
    return sum(min(n, runs[j]) for j, n in ran.items()) - stayed


@examples(150)
@given(mixed_pools(4))
def test_small_pools_move_the_fewest_tasks_that_can_be(pools):
    before, problem = pools
    ran = whole(before)
    answer = whole(problem, current_placements_of(ran))
    placed_before = Counter(tasks_on_servers(ran))
    taken = sum((placed_before - Counter(tasks_on_servers(answer))).values())
    assert taken == fewest_taken(problem, answer.tasks, placed_before, {})


@examples(150)
@given(mixed_pools(30, shrinks=(0, 1)))
def test_larger_pools_move_no_more_than_a_fresh_placement(pools):
    before, problem = pools
    ran = whole(before)
    running = current_placements_of(ran)
    answer, fresh = whole(problem, running), whole(problem)
    assert answer.tasks.tolist() == fresh.tasks.tolist()
    assert not failed(problem, answer, running)
    placed_before = Counter(tasks_on_servers(ran))
    assert answer.moved == moves(placed_before, Counter(tasks_on_servers(answer)))
    assert answer.moved <= moves(placed_before, Counter(tasks_on_servers(fresh)))


@examples(100)
@given(mixed_pools(30), st.randoms(use_true_random=False))
def test_what_is_kept_stays_while_servers_exchange_the_rest(pools, random):
    before, problem = pools
    ran = current_placements_of(whole(before))
    some = [random.random() < 0.5 for _ in ran.workload]
    kept = CurrentPlacements(**{name: getattr(ran, name)[some] for name in COLUMNS})
    problem = replace(problem, kept_placements=kept)
    assert not failed(problem, whole(problem, ran), ran)


def test_fewer_tasks_move_between_equal_servers():
    """One of ten tenants asks for more; a fresh placement moves many tasks."""
    random = np.random.default_rng(3)
    before = Problem.create(
        resources=["cpu", "gpu"],
        capacity=random.choice([8, 16], (2, 2)),
        server_count=[40, 40],
        tenants=[f"t{i}" for i in range(10)],
        workload_tenant=range(10),
        demand=random.integers(1, 6, (10, 2)),
        tasks=[4.0] + [20.0] * 9,
    )
    running = current_placements_of(whole(before))
    problem = replace(before, tasks=np.full(10, 20.0))
    answer = whole(problem, running)
    ran = Counter(tasks_on_servers(whole(before)))
    assert answer.moved < 0.3 * moves(ran, Counter(tasks_on_servers(whole(problem))))


def test_tasks_of_servers_that_shrank_move_only_if_they_must():
    """One server of 10 GPUs, which ran all tasks, has 9: nine of ten tasks stay."""
    problem = problem_of([[9], [10]], [[1], [1]], tasks=[10, 1])
    running = placements((0, 0, 10))
    answer = whole(problem, running)
    assert answer.moved == 1
    assert not failed(problem, answer, running)


@pytest.mark.parametrize("limits", [[], [Limit("tenant", 0, np.array([1000.0]))]])
def test_a_limit_that_does_not_bind_excuses_no_move(limits):
    running = placements((0, 0, 4), (0, 2, 3), (0, 3, 1))
    problem = replace(FOUR, limits=tuple(limits))
    answer = whole(problem, running)
    forged = replace(placed(answer, [(3, 0), (1, 1), (3, 0), (1, 0)]), moved=1)
    assert failed(problem, forged, running) == {"placed_by_rule"}


def test_after_the_deadline_the_fresh_placement_holds(monkeypatch):
    """Placing the missing tasks beside the others runs out of time, although they have room."""

    def too_late(request):
        raise SolveTimeoutError("solve.timeout", "the time limit passed while placing")

    running = placements((0, 0, 4), (0, 2, 3), (0, 3, 1))
    fresh = whole(FOUR)
    monkeypatch.setattr(placement_stickiness, "solve_indivisible", too_late)
    answer = whole(FOUR, running)
    monkeypatch.undo()
    assert tasks_on_servers(answer) == tasks_on_servers(fresh)
    assert not failed(FOUR, answer, running)


def test_a_search_without_time_leaves_the_exchange_of_servers(monkeypatch):
    monkeypatch.setattr(few_moves, "SECONDS", 0.0)
    answer = whole(FOUR, TWO_EACH)
    assert answer.moved == 3
    assert not failed(FOUR, answer, TWO_EACH)


def test_many_workloads_that_want_more_are_not_compared_with_each_other(monkeypatch):
    """Each has room where no other one has, so that the program would be too large."""
    looked = []
    compare = few_moves._smallest

    def counted(wants, demand, allowed, most):
        found = compare(wants, demand, allowed, most)
        looked.append((len(wants), len(found)))
        return found

    monkeypatch.setattr(few_moves, "_smallest", counted)
    n = 400
    demand = [[1, 1], [3, 3], *([i, n - i] for i in range(1, n))]
    problem = problem_of([[4, 4]] * 4 + [[n, n]], demand, tasks=[8, 1, *[1] * (n - 1)])
    running = placements(*[(0, row, 2) for row in range(4)], (2 + n // 2, 4, 1))
    answer = whole(problem, running)
    assert not failed(problem, answer, running)
    assert all(found <= few_moves.LARGEST_PROGRAM // 10 for _, found in looked)


@examples(150)
@given(st.data())
def test_servers_of_a_row_exchange_so_that_the_most_stays(data):
    """All ways to exchange them are tried."""
    count = st.integers(0, 3)
    servers, kinds = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    tables = st.lists(
        st.lists(count, min_size=kinds, max_size=kinds), min_size=servers, max_size=servers
    )
    fresh, running = (np.array(data.draw(tables), dtype=np.float64) for _ in range(2))
    kept = np.minimum(fresh, running) * data.draw(st.sampled_from([0, 1]))
    problem = problem_of([[100]], [[1]] * kinds, server_count=[servers], tasks=fresh.sum(axis=0))
    of = partial(on_servers, kinds=kinds)
    placing = few_moves.Placing(fresh.sum(axis=0), np.zeros(kinds, bool), of(running), of(kept))
    found = few_moves.exchange_in_rows(each_row_alone(problem), of(fresh), placing)
    table = np.zeros_like(fresh)
    table[found.server, found.kind] = found.tasks
    assert sorted(table.tolist()) == sorted(fresh.tolist())
    assert (table >= kept).all()
    assert np.minimum(table, running).sum() == max(
        np.minimum(fresh[list(order)], running).sum()
        for order in permutations(range(servers))
        if (fresh[list(order)] >= kept).all()
    )


def on_servers(table, kinds):
    server, kind = np.nonzero(table)
    return TasksOnServers.of(server, kind, table[server, kind], kinds)
