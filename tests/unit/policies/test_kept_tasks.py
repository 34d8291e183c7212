"""Tasks that a problem states to be kept: figures, a plain reference, forgeries, and what is refused."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import (
    CurrentPlacements,
    History,
    Limit,
    ParsedProblem,
    PolicyNotApplicableError,
    Problem,
    ProblemError,
    current_placements_of,
    problem_from_document,
    problem_to_document,
    properties_of,
    solve,
    verify,
)
from policies.filling.kept_tasks import kept_tasks
from tests.examples import examples
from tests.references.gangs import GangStep, fill_gangs
from tests.references.kept_tasks import kept_pieces
from tests.references.long_term import Past
from tests.unit.policies.problems import problem_of, problems
from tests.unit.policies.test_filling_properties import PLACEMENTS, tasks_on_servers
from tests.unit.policies.test_gangs import LONG_TERM, gang, gang_problems
from tests.unit.policies.trees import problems_in_groups, problems_with_limits


def placements(*rows):
    """Return placements of (workload or kind, row, offset, servers, tasks)."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    return CurrentPlacements(
        workload=columns[0],
        row=columns[1],
        offset=columns[2],
        servers=columns[3],
        tasks=columns[4].astype(np.float64),
    )


def keeping(problem, *rows):
    return replace(problem, kept_placements=placements(*rows))


def on_existing_servers(problem):
    """Return a problem that keeps tasks only where it has servers, as a document can state it."""
    kept = problem.kept_placements
    exists = kept.offset + kept.servers <= problem.server_count[kept.row]
    rows = np.stack([kept.workload, kept.row, kept.offset, kept.servers, kept.tasks], 1)
    return keeping(problem, *rows[exists].astype(int).tolist())


def whole(problem, running=None, **options):
    return solve(problem, "drfh", mode="indivisible", options=options, running=running)


def two_tenants(tasks=(8, 8), **fields):
    """Return 2 servers of 4 GPUs for tasks of 1 GPU of a and b."""
    return Problem.create(
        resources=["gpu"], capacity=[[4]], server_count=[2], tenants=["a", "b"],
        demand=[[1], [1]], tasks=tasks, **fields,
    )  # fmt: skip


def test_kept_tasks_count_towards_shares():
    """Each tenant gets 4 of 8 GPUs. 3 that a keeps are among its 4, on the second server."""
    answer = whole(keeping(two_tenants(), (0, 0, 1, 1, 3)))
    assert answer.tasks.tolist() == [4, 4]
    assert tasks_on_servers(answer)[0, 1] >= 3


def test_more_than_the_share_is_kept_too():
    answer = whole(keeping(two_tenants(), (0, 0, 0, 2, 3)))
    assert answer.tasks.tolist() == [6, 2]
    assert tasks_on_servers(answer) == {(0, 0): 3, (0, 1): 3, (1, 0): 1, (1, 1): 1}
    assert answer.level.tolist() == [0.75, 0.25]


def test_a_later_workload_of_a_tenant_counts_from_the_beginning():
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], tenants=["a", "b"], workload_tenant=[0, 0, 1],
        demand=[[1], [1], [1]], tasks=[8, 4, 8],
    )  # fmt: skip
    assert whole(keeping(problem, (1, 0, 0, 1, 4))).tasks.tolist() == [0, 4, 4]


@pytest.mark.parametrize(
    ("change", "tasks"),
    [
        ({}, [8, 0]),
        ({"tasks": np.array([3.0, 8.0])}, [3, 5]),  # it asks for 3 only
        ({"capacity": np.array([[2.0]])}, [4, 0]),  # the servers have become smaller
        ({"server_count": np.array([1])}, [4, 0]),  # one of them has left
        ({"contributed_only": np.array([True])}, [0, 0]),  # both drain
        ({"limits": (Limit("tenant", 0, np.array([5.0])),)}, [5, 3]),
        ({"selectors": ({"zone": ("x",)}, {})}, [0, 8]),
    ],
)
def test_no_more_is_kept_than_is_asked_for_allowed_or_fits(change, tasks):
    problem = replace(keeping(two_tenants(), (0, 0, 0, 2, 4)), **change)
    answer = whole(problem)
    assert answer.tasks.tolist() == tasks
    assert verify(problem, answer).valid


def test_servers_and_workloads_that_are_gone_keep_nothing():
    problem = keeping(two_tenants(), (0, -1, 0, 2, 4), (1, 0, 0, 1, 4), (1, 0, 1, 5, 1))
    answer = whole(problem)
    assert answer.tasks.tolist() == [3, 5]
    assert verify(problem, answer).valid


def mpi(tasks, kept, **fields):
    """Return 4 servers of 8 GPUs, gangs of 2 pieces with 4 GPUs, and solo with 40 tasks of 1 GPU."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], server_count=[4], tenants=["solo", "mpi"],
        demand=[[1], [1]], tasks=[40, tasks], gangs={1: gang((2, [4]), **fields)},
    )  # fmt: skip
    return keeping(problem, *kept)


def test_gangs_are_kept_whole():
    """3 gangs on 3 servers, of which one drains: 4 pieces are left, which make 2 gangs."""
    problem = mpi(3, [(1, 0, 0, 3, 2)])
    assert whole(problem).tasks.tolist() == [8, 3]
    smaller = replace(problem, server_count=np.array([2]))
    answer = whole(smaller)
    assert answer.tasks.tolist() == [0, 2]
    assert verify(smaller, answer).valid
    odd = mpi(3, [(1, 0, 0, 1, 2), (1, 0, 1, 1, 1)])  # a piece without another one stays nowhere
    kept = kept_tasks(odd)
    assert (kept.server.tolist(), kept.tasks.tolist()) == ([0], [2])


def test_a_gang_of_which_too_few_tasks_are_left_starts_anew():
    problem = mpi(3, [(1, 0, 0, 2, 2)], at_least=3)
    assert kept_tasks(problem).tasks.tolist() == []
    enough = mpi(3, [(1, 0, 0, 3, 2)], at_least=3)
    assert whole(enough).tasks.tolist() == [8, 3]


@st.composite
def with_kept(draw, base):
    """Draw problems that state kept tasks.

    Some of them ran in another answer, some could never run, and servers and demands have changed.
    """
    problem = draw(base)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    before = replace(
        problem,
        tasks=np.where(rng.random(problem.n) < 0.3, rng.integers(0, 6, problem.n), problem.tasks),
    )
    ran = current_placements_of(whole(before))
    rows = np.stack([ran.workload, ran.row, ran.offset, ran.servers, ran.tasks.astype(np.int64)], 1)
    rows = rows[rng.random(len(rows)) < 0.7]
    kinds = len(problem.pieces.demand)
    for _ in range(int(rng.integers(0, 3))):
        row = [
            rng.integers(kinds),
            rng.integers(-1, problem.k),
            rng.integers(0, 2),
            rng.integers(1, 3),
        ]
        rows = np.vstack([rows, [*row, rng.integers(1, 4)]])
    rows[:, 4] = np.minimum(rows[:, 4], 6)  # the reference tries every choice of pieces
    changed = replace(problem, kept_placements=placements(*rows.tolist()))
    if rng.random() < 0.3:
        factor = rng.choice([0.5, 1.0], problem.k)[:, None]
        changed = replace(changed, capacity=problem.capacity * factor)
    return changed


def assert_plain(problem, placement, seed=0):
    options = {"placement": placement}
    if placement == "two-choices":
        options["seed"] = seed
    answer = whole(problem, **options)
    expected = kept_pieces(problem)
    kept = [place for place, number in sorted(expected.items()) for _ in range(number)]
    log, count = fill_gangs(problem, placement, seed, kept)
    assert answer.tasks.tolist() == count
    runs = Counter((problem.pieces.kinds(j)[kind], server) for j, kind, server in log)
    assert tasks_on_servers(answer) == runs
    found = verify(problem, answer)
    assert found.valid, [item for item in found.checks if not item.holds]


@pytest.mark.parametrize("placement", PLACEMENTS)
@examples(500)
@given(problem=with_kept(problems()), seed=st.integers(0, 3))
def test_kept_tasks_come_first_as_in_the_plain_reference(placement, problem, seed):
    assert_plain(problem, placement, seed)


@examples(400)
@given(problem=with_kept(problems_with_limits()))
def test_in_groups_and_within_limits_too(problem):
    assert_plain(problem, "best-fit")


@examples(500)
@given(problem=with_kept(gang_problems(problems(max_servers=2, max_tenants=2))))
def test_gangs_are_kept_as_the_plain_reference_keeps_them(problem):
    assert_plain(problem, "best-fit")


@examples(300)
@given(problem=with_kept(gang_problems(problems_with_limits())))
def test_gangs_within_limits_too(problem):
    assert_plain(problem, "first-fit")


@examples(400)
@given(problem=with_kept(problems()), data=st.data())
def test_tasks_that_run_may_stay_beside_those_that_are_kept(problem, data):
    tasks = st.sampled_from([0.0, 1.0, 2.0, 4.0, np.inf])
    before = np.array(data.draw(st.lists(tasks, min_size=problem.n, max_size=problem.n)))
    running = current_placements_of(whole(replace(problem, tasks=before)))
    answer, fresh = whole(problem, running), whole(problem)
    assert answer.tasks.tolist() == fresh.tasks.tolist()
    assert verify(problem, answer, running=running).valid
    placed = tasks_on_servers(answer)
    for (j, _, server), number in kept_pieces(problem).items():
        assert placed[j, server] >= number


@pytest.mark.parametrize("change", ["dropped", "moved", "more", "fewer of all", "other problem"])
def test_a_forged_answer_is_refused(change):
    """The answer would be right if something else were kept."""
    problem = keeping(two_tenants(tasks=(5, 8)), (0, 0, 1, 1, 3), (0, 0, 0, 1, 2))
    others = {
        "dropped": [],
        "moved": [(0, 0, 0, 1, 3), (0, 0, 1, 1, 2)],
        "more": [(0, 0, 1, 1, 3), (0, 0, 0, 1, 2), (1, 0, 0, 1, 1)],
        "fewer of all": [(0, 0, 1, 1, 2), (0, 0, 0, 1, 2)],
        "other problem": [(1, 0, 0, 2, 4)],
    }
    answer = whole(problem)
    assert verify(problem, answer).valid
    forged = whole(keeping(problem, *others[change]))
    different = tasks_on_servers(forged) != tasks_on_servers(answer)
    assert verify(problem, replace(forged, problem=problem)).valid is not different
    assert different or change == "more"


def test_a_kept_task_on_another_server_is_refused_in_place_too():
    problem = keeping(two_tenants(tasks=(3, 4)), (0, 0, 1, 1, 3))
    running = placements((0, 0, 1, 1, 3))
    answer = whole(problem, running)
    assert verify(problem, answer, running=running).valid
    elsewhere = whole(replace(problem, kept_placements=None), placements((0, 0, 0, 1, 3)))
    assert tasks_on_servers(elsewhere)[0, 0] == 3
    assert not verify(problem, replace(elsewhere, problem=problem), running=running).valid


def assert_plain_step(policy, problem, options, history, past):
    expected = kept_pieces(problem)
    kept = [place for place, number in sorted(expected.items()) for _ in range(number)]
    timeout, cap = options.get("starvation_timeout"), options.get("borrow_cap")
    plain = GangStep(problem, policy, past, timeout, cap, kept)
    answer = solve(problem, policy, options=options, history=history)
    assert answer.tasks.tolist() == plain.run()
    runs = Counter((problem.pieces.kinds(j)[kind], server) for j, kind, server in plain.launched)
    assert tasks_on_servers(answer) == runs
    found = verify(problem, answer, history)
    assert found.valid, [item for item in found.checks if not item.holds]
    used = answer.history.used
    assert np.allclose(used, np.array(past.used, dtype=float), rtol=1e-12, atol=0)
    return answer


@pytest.mark.parametrize("policy", LONG_TERM)
@pytest.mark.parametrize("base", [problems(max_servers=3), problems_in_groups(selectors=True)])
@examples(250)
@given(data=st.data())
def test_long_term_policies_keep_tasks_as_the_plain_reference_does(policy, base, data):
    """Two steps; the second one keeps other tasks beside what the first one was handed."""
    problem = data.draw(with_kept(data.draw(st.sampled_from([base, gang_problems(base)]))))
    options = {}
    if data.draw(st.booleans()):
        options["starvation_timeout"] = data.draw(st.sampled_from([0.5, 1]))
    if data.draw(st.booleans()):
        options["borrow_cap"] = data.draw(st.sampled_from([0, 0.25, 1]))
    past, history = Past(problem.t, problem.m, 1.0), History.zeros(problem, 1.0)
    for step in (problem, replace(problem, tasks=problem.tasks[::-1].copy())):
        history = assert_plain_step(policy, step, options, history, past).history


def test_a_tenant_with_kept_tasks_of_a_later_workload_waits_under_long_term_policies():
    """Its second workload keeps 4 of 8 GPUs, so that the other tenant gets all that is left."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], tenants=["a", "b"], workload_tenant=[0, 0, 1],
        demand=[[1], [1], [1]], tasks=[8, 4, 8],
    )  # fmt: skip
    for policy in LONG_TERM:
        answer = solve(keeping(problem, (1, 0, 0, 1, 4)), policy)
        assert answer.tasks.tolist() == [0, 4, 4]
        assert solve(problem, policy).tasks.tolist() == [4, 0, 4]
        forged = replace(solve(problem, policy), problem=keeping(problem, (1, 0, 0, 1, 4)))
        assert not verify(forged.problem, forged).valid


@pytest.mark.parametrize("policy", LONG_TERM)
def test_one_pool_keeps_no_tasks_on_servers(policy):
    with pytest.raises(PolicyNotApplicableError) as refused:
        solve(keeping(two_tenants(), (0, 0, 0, 2, 3)), policy, options={"placement": "pool"})
    assert refused.value.code == "policy.no_kept_tasks"


def test_properties_with_kept_tasks_are_undecided():
    verdicts = properties_of(whole(keeping(two_tenants(), (0, 0, 0, 2, 3))), seconds=0).verdicts
    assert {verdict.holds for verdict in verdicts.values()} == {None}


@pytest.mark.parametrize(
    ("policy", "mode"),
    [("drf", "divisible"), ("drf", "indivisible"), ("drfh", "divisible"), ("static", None),
     ("mrfs", None), ("tda", None)],
)  # fmt: skip
def test_policies_that_keep_no_tasks_refuse_them(policy, mode):
    problem = keeping(two_tenants(), (0, 0, 0, 2, 3))
    with pytest.raises(PolicyNotApplicableError) as refused:
        solve(problem, policy, mode=mode)
    assert (refused.value.code, refused.value.pointer) == ("policy.no_kept_tasks", "/policy")
    answer = solve(replace(problem, kept_placements=None), policy, mode=mode)
    assert not verify(problem, answer).valid


@pytest.mark.parametrize(
    "row", [(2, 0, 0, 1, 1), (0, 1, 0, 1, 1), (0, 0, -1, 1, 1), (0, 0, 0, 1, -1)]
)
def test_placements_of_nothing_are_refused(row):
    with pytest.raises(ProblemError) as refused:
        keeping(two_tenants(), row)
    assert (refused.value.code, refused.value.pointer) == ("kept.placement", "/kept/0")


def test_a_document_comes_back_as_it_was():
    problem = mpi(3, [(1, 0, 0, 2, 2), (0, 0, 2, 2, 3), (0, -1, 0, 1, 1)])
    parsed = ParsedProblem(problem, "drfh", "indivisible")
    document = problem_to_document(parsed)
    assert document["kept"][0] == {
        "tenant": "mpi", "workload": "workload-0002", "server": "server-0001", "offset": 0,
        "servers": 2, "tasks": 2,
    }  # fmt: skip
    read = problem_from_document(document).problem
    assert problem_to_document(ParsedProblem(read, "drfh", "indivisible")) == document
    assert tasks_on_servers(whole(read)) == tasks_on_servers(whole(problem))
    document["kept"][0]["servers"] = 5
    with pytest.raises(ProblemError) as refused:
        problem_from_document(document)
    assert (refused.value.code, refused.value.pointer) == ("running.server", "/kept/0/servers")


def test_documents_name_workloads_of_the_problem_only():
    document = problem_to_document(
        ParsedProblem(problem_of([[4, 4]], [[1, 1]]), "drfh", "indivisible")
    )
    entry = {"tenant": "u1", "workload": "gone", "server": "server-0001", "tasks": 1}
    document["kept"] = [entry]
    assert whole(problem_from_document(document).problem).tasks.tolist() == [4]


def test_gangs_on_other_servers_than_the_rules_are_refused_beside_running_ones():
    """The same tasks on the servers in the opposite order. Looking for them in place raised an error."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]] * 4, tenants=["mpi", "solo"], demand=[[1], [1]],
        tasks=[2, 5], gangs={0: gang((1, [4]), (1, [2]))},
    )  # fmt: skip
    answer = whole(problem)
    running = current_placements_of(answer)
    answer = whole(problem, running)
    assert verify(problem, answer, running=running).valid
    forged = replace(answer, placement_class=3 - answer.placement_class)
    failed = [
        check.name for check in verify(problem, forged, running=running).checks if not check.holds
    ]
    assert "placed_by_rule" in failed
    # On these servers they may run, and stay if they do.
    there = current_placements_of(forged)
    assert tasks_on_servers(whole(problem, there)) == tasks_on_servers(forged)
    assert verify(problem, forged, running=there).valid
