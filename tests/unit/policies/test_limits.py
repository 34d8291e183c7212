"""Limits: the figures, plain references of all modes, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from policies import (
    CurrentPlacements,
    Gang,
    Guarantee,
    Limit,
    PolicyNotApplicableError,
    Problem,
    ProblemError,
    ProblemTooLargeError,
    explain,
    problem_from_document,
    problem_to_document,
    properties_of,
    solve,
    verify,
)
from policies.model.limits import in_order
from tests.examples import examples
from tests.references.filling import fill
from tests.references.groups import leximin_in_groups
from tests.references.leximin import reference_shares
from tests.unit.policies.trees import problems_with_limits, with_limits

INF = np.inf


def faculties(limits=()):
    return Problem.create(
        resources=["cpu", "memory"], capacity=[[2, 12], [12, 2]], tenants=["a", "b", "biology"],
        demand=[[0.2, 1], [1, 0.2], [1, 0.2]], groups=["physics"], tenant_group=[0, 0, -1],
        limits=limits,
    )  # fmt: skip


def departments(limits=()):
    return Problem.create(
        resources=["cpu", "gpu"], capacity=[[64, 8], [96, 0]], tenants=["vision", "speech", "bio"],
        demand=[[4, 1], [8, 1], [2, 0]], groups=["ml"], tenant_group=[0, 0, -1], limits=limits,
        server_labels=[{"gpu": "a100"}, {}],
    )  # fmt: skip


def test_a_faculty_with_a_limit():
    problem = faculties([Limit("group", 0, np.array([4, INF]))])
    answer = solve(problem, "drfh")
    assert answer.tenant_share == pytest.approx([5 / 21, 5 / 21, 4 / 7], abs=1e-12)
    assert answer.limited_by == ("limit:group:physics",) * 2 + ("resource:cpu",)
    assert verify(problem, answer).valid


@pytest.mark.parametrize("policy", ["drf", "drfh"])
@pytest.mark.parametrize(
    ("limits", "shares"),
    [([], [5 / 13, 5 / 13, 10 / 13]), ([4], [1 / 4, 1 / 4, 17 / 20])],
    ids=["without", "4 GPUs"],
)
def test_a_department_with_a_limit(policy, limits, shares):
    problem = departments([Limit("group", 0, np.array([INF, amount])) for amount in limits])
    answer = solve(problem, policy, mode="divisible")
    assert answer.tenant_share == pytest.approx(shares, abs=1e-12)
    assert verify(problem, answer).valid


def test_a_limit_for_one_kind_of_servers_leaves_the_others_free():
    problem = departments([Limit("group", 0, np.array([16, INF]), {"gpu": ("a100",)})])
    problem = replace(problem, demand=np.array([[4.0, 0], [8, 0], [2, 0]]))
    answer = solve(problem, "drfh", mode="indivisible")
    on_gpu_servers = sum(
        float(tasks) * problem.demand[workload, 0]
        for workload, place, tasks in zip(
            answer.placement_workload, answer.placement_class, answer.placement_tasks, strict=True
        )
        if workload < 2 and answer.classes.first_row[place] == 0
    )
    assert on_gpu_servers == 16
    assert answer.tasks[:2] @ problem.demand[:2, 0] > 16
    assert verify(problem, answer).valid


@examples(400)
@given(problems_with_limits(flat=True))
def test_flat_pools_of_servers_agree_with_linear_programs(problem):
    answer = solve(problem, "drfh")
    assert answer.tenant_share == pytest.approx(reference_shares(problem), abs=2e-6)
    assert verify(problem, answer).valid


@examples(400)
@given(problems_with_limits(selectors=False, flat=True))
def test_flat_pools_as_one_server_agree_with_linear_programs(problem):
    answer = solve(problem, "drf", mode="divisible")
    assert answer.tenant_share == pytest.approx(reference_shares(problem, pooled=True), abs=2e-6)
    assert verify(problem, answer).valid


@examples(400)
@given(problems_with_limits())
def test_groups_on_servers_agree_with_exact_programs(problem):
    answer = solve(problem, "drfh")
    expected = [float(share) for share in leximin_in_groups(problem)]
    assert answer.tenant_share == pytest.approx(expected, abs=1e-8)
    assert verify(problem, answer).valid


@examples(400)
@given(problems_with_limits(selectors=False))
def test_groups_in_one_pool_agree_with_exact_programs(problem):
    answer = solve(problem, "drf", mode="divisible")
    expected = [float(share) for share in leximin_in_groups(problem, pooled=True)]
    assert answer.tenant_share == pytest.approx(expected, abs=1e-8)
    assert verify(problem, answer).valid


@pytest.mark.parametrize("placement", ["best-fit", "first-fit", "affinity", "two-choices"])
@examples(400)
@given(problems_with_limits())
def test_whole_tasks_on_servers_are_those_of_the_plain_filling(placement, problem):
    answer = solve(problem, "drfh", mode="indivisible", options={"placement": placement})
    assert answer.tasks.tolist() == fill(problem, placement)[1]
    assert verify(problem, answer).valid


@examples(400)
@given(problems_with_limits(selectors=False))
def test_whole_tasks_in_one_pool_are_those_of_the_plain_filling(problem):
    answer = solve(problem, "drf", mode="indivisible")
    assert answer.tasks.tolist() == fill(problem, "pool")[1]
    assert verify(problem, answer).valid


def changed(problem, **fields):
    """The problem with other fields of its first limit."""
    return replace(problem, limits=(replace(problem.limits[0], **fields), *problem.limits[1:]))


def amount_times(factor):
    def forge(problem):
        amount = problem.limits[0].amount
        return changed(problem, amount=np.array([a if a == INF else factor * a for a in amount]))

    return forge


FORGERIES = {
    "half the amount": amount_times(0.5),
    "twice the amount": amount_times(2),
    "a little less": amount_times(1 - 1e-6),
    "no limit": lambda problem: replace(problem, limits=problem.limits[1:]),
    "nothing": amount_times(0),
    "other servers": lambda problem: changed(
        problem, where={} if problem.limits[0].where else {"zone": "0"}
    ),
    "another tenant": lambda problem: changed(problem, scope="tenant", node=problem.t - 1),
}


@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_an_answer_to_other_limits_is_refused(forgery, mode):
    rng = np.random.default_rng(7)
    refused = 0
    for _ in range(25):
        problem = random_problem(rng)
        answer = solve(problem, "drfh", mode=mode)
        other = FORGERIES[forgery](problem)
        if verify(other, replace(answer, problem=other)).valid:
            own = solve(other, "drfh", mode=mode)
            assert answer.tenant_share == pytest.approx(own.tenant_share, abs=1e-7)
        else:
            refused += 1
    assert refused


def random_problem(rng):
    t = 4
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=rng.integers(2, 12, (2, 2)),
        server_labels=[{"zone": "0"}, {"zone": "1"}], tenants=[f"t{i}" for i in range(t)],
        demand=rng.integers(1, 4, (t, 2)), weight=rng.integers(1, 3, t),
        groups=["g"], tenant_group=[0, 0, -1, -1],
    )  # fmt: skip
    first = Limit("group", 0, np.array([float(rng.integers(1, 6)), INF]))
    return with_limits(replace(problem, limits=(first,)), rng, some_servers=True, first=(first,))


def test_a_price_of_what_no_limit_names_is_refused():
    problem = departments([Limit("group", 0, np.array([INF, 4]))])
    answer = solve(problem, "drfh")
    first, *others = answer.certificate.rounds
    prices = first.prices.copy()
    prices[-1, 0] = 1.0
    forged = replace(answer.certificate, rounds=(replace(first, prices=prices), *others))
    failed = [
        c.name for c in verify(problem, replace(answer, certificate=forged)).checks if not c.holds
    ]
    assert failed == ["certificate"]


def document(limit, policy="drfh", where="groups"):
    body = {
        "resources": ["cpu", "gpu"],
        "servers": [{"capacity": {"cpu": 64, "gpu": 8}, "labels": {"gpu": "a100"}}],
        "groups": [{"name": "ml"}],
        "tenants": [{"name": "vision", "group": "ml"}],
        "workloads": [{"tenant": "vision", "name": "train", "demand": {"cpu": 4, "gpu": 1}}],
        "policy": {"name": policy},
    }
    body[where][0]["limit"] = limit
    return body


@pytest.mark.parametrize("where", ["groups", "tenants", "workloads"])
def test_documents_state_limits(where):
    rows = [
        {"where": {"gpu": ["a100", "h100"]}, "amount": {"gpu": 3.0}},
        {"where": {}, "amount": {"cpu": 8.0, "gpu": 5.0}},
    ]
    parsed = problem_from_document(document(rows, where=where))
    assert problem_to_document(parsed)[where][0]["limit"] == rows
    answer = solve(parsed.problem, "drfh")
    assert answer.tasks.tolist() == pytest.approx([2])
    assert answer.limited_by[0].startswith("limit:")


@pytest.mark.parametrize(
    ("limit", "code", "pointer"),
    [
        ([{"amount": {"tpu": 1}}], "limit.unknown_resource", "/groups/0/limit/0/amount/tpu"),
        ([{"amount": {}}], "limit.empty", "/groups/0/limit/0/amount"),
        ([{}], "field.missing", "/groups/0/limit/0/amount"),
        ([{"amount": {"gpu": -1}}], "quantity.negative", "/groups/0/limit/0/amount/gpu"),
        ([{"amount": {"gpu": "NaN"}}], "quantity.syntax", "/groups/0/limit/0/amount/gpu"),
        ([{"amount": {"gpu": True}}], "quantity.type", "/groups/0/limit/0/amount/gpu"),
        ([{"amount": {"gpu": 1}, "from": "2026-12-01T00:00:00Z"}], "limit.interval",
         "/groups/0/limit/0/from"),
        ([{"amount": {"gpu": 1}, "where": {"gpu": []}}], "selector.empty",
         "/groups/0/limit/0/where/gpu"),
        ({"amount": {"gpu": 1}}, "field.type", "/groups/0/limit"),
        ([{"amount": {"gpu": 1}}] * 101, "limit.too_many", "/groups/0/limit"),
    ],
)  # fmt: skip
def test_documents_with_impossible_limits_are_refused(limit, code, pointer):
    with pytest.raises(ProblemError) as error:
        problem_from_document(document(limit))
    assert (error.value.mistakes[0].code, error.value.mistakes[0].pointer) == (code, pointer)


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        (Limit("group", 1, np.array([INF, 4])), "limit.node"),
        (Limit("pool", 0, np.array([INF, 4])), "limit.node"),  # type: ignore[arg-type]
        (Limit("group", 0, np.array([INF, INF])), "limit.empty"),
        (Limit("group", 0, np.array([4])), "problem.shape"),
        (Limit("group", 0, np.array([np.nan, 4])), "limit.amount"),
        (Limit("group", 0, np.array([-1, INF])), "limit.amount"),
        (Limit("group", 0, np.array([1e13, INF])), "limit.amount"),
    ],
)
def test_impossible_limits_are_refused(limit, code):
    with pytest.raises(ProblemError) as error:
        departments([limit])
    assert error.value.code == code


@pytest.mark.parametrize(
    ("policy", "options", "code"),
    [
        ("ceei", {}, "policy.no_limits"),
        ("h-mrf", {}, "policy.no_limits"),
        ("drf", {"resource_weights": {"t0": {"cpu": 2}}}, "policy.no_limits"),
        ("drf", {}, "policy.no_placement"),
    ],
)
def test_policies_that_cannot_keep_a_limit_refuse_it(policy, options, code):
    problem = random_problem(np.random.default_rng(0))
    problem = replace(problem, tenant_group=np.full(4, -1))
    where = {} if code == "policy.no_limits" else {"zone": "0"}
    problem = replace(problem, limits=(Limit("tenant", 0, np.array([1, INF]), where),))
    with pytest.raises(PolicyNotApplicableError) as error:
        solve(problem, policy, options=options)
    assert error.value.code == code


def test_an_amount_of_nothing_stops_everything_below():
    problem = departments([Limit("group", 0, np.array([INF, 0]))])
    for mode in ("divisible", "indivisible"):
        answer = solve(problem, "drfh", mode=mode)
        assert answer.tasks.tolist() == pytest.approx([0, 0, 80])
        # Tasks of bio leave no CPU either.
        assert answer.limited_by[0] == "limit:group:ml"
        assert verify(problem, answer).valid


@pytest.mark.parametrize("policy", ["drf", "drfh"])
@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
def test_a_limit_is_the_reason_after_others_have_filled_the_pool(policy, mode):
    problem = Problem.create(
        resources=["gpu"], capacity=[[32]], tenants=["a", "c"], demand=[[1], [1]], groups=["ml"],
        tenant_group=[0, -1], limits=[Limit("group", 0, np.array([4]))],
    )  # fmt: skip
    answer = solve(problem, policy, mode=mode)
    assert answer.tasks.tolist() == pytest.approx([4, 28])
    assert answer.limited_by == ("limit:group:ml", "resource:gpu")
    verdicts = properties_of(answer, seconds=2).verdicts
    for name in ("strong_sharing_incentive", "group_share_guarantee"):
        assert verdicts[name].holds
    forged = replace(answer, limited_by=("resource:gpu", "resource:gpu"))
    assert not verify(problem, forged).valid


@pytest.mark.parametrize(
    ("where", "small", "reason"),
    [
        ({}, 1, "limit:tenant"),
        # The other servers have none left for it, which another tenant took.
        ({"gpu": ("h100",)}, 1, "resource:gpu"),
        # The other servers are too small for its tasks, full or not.
        ({"gpu": ("h100",)}, 2, "limit:tenant"),
    ],
)
def test_a_limit_of_some_servers_is_the_reason_if_no_others_are_large_enough(where, small, reason):
    problem = Problem.create(
        resources=["gpu"], capacity=[[4], [1]], server_count=[2, 8], tenants=["a", "c"],
        demand=[[small], [1]], server_labels=[{"gpu": "h100"}, {"gpu": "a10"}],
        limits=[Limit("tenant", 0, np.array([2]), where)],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode="indivisible")
    assert answer.limited_by == (reason, "resource:gpu")
    assert verify(problem, answer).valid


@pytest.mark.parametrize("pieces", [[1], [1, 2]])
def test_a_limit_is_the_reason_of_gangs_after_others_have_filled_the_pool(pieces):
    # The limit leaves room for one more piece, and for no more tasks.
    mpi = Gang(count=np.array(pieces), demand=np.ones((len(pieces), 1)), at_least=1)
    problem = Problem.create(
        resources=["gpu"], capacity=[[8], [8]], tenants=["a", "c"], demand=[[0], [1]],
        gangs={0: replace(mpi, count=np.array(pieces) * 2)}, limits=[Limit("tenant", 0, np.array([7]))],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode="indivisible")
    assert answer.limited_by == ("limit:tenant", "resource:gpu")
    assert verify(problem, answer).valid
    assert not verify(problem, replace(answer, limited_by=("gang", "resource:gpu"))).valid


def test_workloads_that_differ_in_their_limits_alone_are_not_alike():
    problem = Problem.create(
        resources=["cpu"], capacity=[[10]], tenants=["a"], demand=[[1], [1]],
        workload_tenant=[0, 0], limits=[Limit("workload", 0, np.array([3]))],
    )  # fmt: skip
    answer = solve(problem, "drf", mode="divisible")
    assert answer.tasks.tolist() == pytest.approx([3, 7])
    assert answer.limited_by == ("limit:workload", "resource:cpu")


@pytest.mark.parametrize("policy", ["drf", "drfh"])
def test_many_tenants_are_capped_by_limits_of_their_own(policy):
    rng = np.random.default_rng(3)
    t = 120
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=rng.integers(20, 60, (6, 2)), demand=np.ones((t, 2)),
        tenants=[f"t{i}" for i in range(t)], weight=rng.integers(1, 4, t),
        limits=[Limit("tenant", i, np.array([1.5, INF])) for i in range(0, t, 2)],
    )  # fmt: skip
    answer = solve(problem, policy, mode="divisible")
    expected = reference_shares(problem, pooled=policy == "drf")
    assert answer.tenant_share == pytest.approx(expected, abs=2e-6)
    assert answer.limited_by.count("limit:tenant") > 10
    assert verify(problem, answer).valid


def test_a_limit_that_all_tasks_just_use_up_ends_no_round():
    # As shares of the pool, all tasks of c are more than its limit of 2 CPUs in the last digit.
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=[[0, 1], [4, 3], [7, 11]], tenants=["a", "b", "c"],
        demand=[[4, 3], [0, 3], [1, 1]], tasks=[INF, 2, 2], groups=["g"], group_weight=[2],
        tenant_group=[0, -1, 0], selectors=[{"zone": "0"}, {}, {}],
        server_labels=[{"zone": "1"}, {"zone": "0"}, {"zone": "0"}],
        limits=[Limit("tenant", 2, np.array([2, 11]))],
        guarantees=[Guarantee("group", 0, np.array([6, 1]))],
    )  # fmt: skip
    answer = solve(problem, "drfh")
    assert answer.tasks == pytest.approx([2.25, 2, 2])
    assert verify(problem, answer).valid


def test_more_limits_than_can_be_kept_are_refused():
    problem = departments([Limit("tenant", 0, np.array([INF, 4]))] * 1001)
    with pytest.raises(ProblemTooLargeError, match="1001 limits; at most 1000"):
        solve(problem, "drfh")
    answer = solve(replace(problem, limits=problem.limits[:1000]), "drfh")
    assert verify(problem, replace(answer, problem=problem)).checks[-1].name == "options"


def test_tasks_that_run_stay_where_a_limit_lets_them():
    problem = Problem.create(
        resources=["cpu"], capacity=[[4], [4]], server_labels=[{"zone": "0"}, {"zone": "1"}],
        tenants=["a"], demand=[[1]], tasks=[4],
        limits=[Limit("tenant", 0, np.array([1]), {"zone": "0"})],
    )  # fmt: skip
    where = CurrentPlacements(
        workload=np.array([0]), row=np.array([0]), offset=np.array([0]), servers=np.array([1]),
        tasks=np.array([4.0]),
    )  # fmt: skip
    answer = solve(problem, "drfh", mode="indivisible", running=where)
    on_first = answer.placement_tasks[answer.classes.first_row[answer.placement_class] == 0]
    assert answer.tasks.tolist() == [4]
    assert on_first.sum() <= 1
    assert verify(problem, answer, running=where).valid


def test_explanations_name_the_limit():
    problem = departments([Limit("group", 0, np.array([INF, 4]))])
    answer = solve(problem, "drfh")
    assert explain(answer, 0).sentence.endswith("stopped at the limit of group ml.")


def test_properties_know_limits():
    problem = departments([Limit("group", 0, np.array([INF, 4]))])
    verdicts = properties_of(solve(problem, "drfh"), seconds=2).verdicts
    assert verdicts["pareto_optimal"].holds
    assert verdicts["envy_free"].holds is not False
    # What vision leaves of the department's GPUs goes to speech, which needs more CPUs with each.
    assert verdicts["population_monotonic"].holds is False


@pytest.mark.parametrize("seed", range(20))
def test_alike_workloads_that_are_not_neighbours_keep_limits(seed):
    rng = np.random.default_rng(seed)
    t = 3
    pair = rng.uniform(1, 3, (t, 2, 2))
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=rng.uniform(2, 9, (3, 2)),
        tenants=[f"t{i}" for i in range(t)], workload_tenant=np.repeat(np.arange(t), 3),
        demand=pair[:, [0, 1, 0]].reshape(-1, 2), priority=[2, 1, 0] * t,
        tasks=rng.integers(1, 4, 3 * t),
        limits=in_order(
            [Limit("tenant", int(rng.integers(t)), np.array([rng.uniform(0, 2), INF])),
             Limit("workload", 3 * int(rng.integers(t)) + 1, np.array([INF, rng.uniform(0, 1)]))]
        ),
    )  # fmt: skip
    assert verify(problem, solve(problem, "drfh")).valid
