"""Guarantees: the figures, plain references of all modes, documents, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given

from policies import (
    Gang,
    Guarantee,
    Limit,
    PolicyNotApplicableError,
    Problem,
    ProblemError,
    ProblemTooLargeError,
    allocation_to_document,
    current_placements_of,
    explain,
    guarantees_unmet,
    problem_from_document,
    problem_to_document,
    properties_of,
    solve,
    verify,
    verify_answer,
)
from policies.documents.problem import ParsedProblem
from tests.examples import examples
from tests.references.floors import fill_with_floors, leximin_with_floors
from tests.unit.policies.test_guarantee_forgeries import contested_problem
from tests.unit.policies.trees import problems_with_guarantees

INF = np.inf
MODES = ("divisible", "indivisible")


def two_tenants(**options):
    return Problem.create(
        resources=["gpu"], capacity=[[100]], tenants=["a", "b"], demand=[[1], [1]],
        guarantees=[
            Guarantee("tenant", tenant, np.array([amount])) for tenant, amount in ((0, 40.0), (1, 10.0))
        ],
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("policy", ["drf", "drfh"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("counted", "shares"), [(True, [0.5, 0.5]), (False, [0.65, 0.35])], ids=["total", "above"]
)
def test_what_is_guaranteed_counts_or_comes_first(policy, mode, counted, shares):
    problem = two_tenants(count_guaranteed=counted)
    answer = solve(problem, policy, mode=mode)
    assert answer.tenant_share == pytest.approx(shares, abs=1e-12)
    assert answer.floors.met.tolist() == pytest.approx([40, 10])
    assert verify(problem, answer).valid


def owners(*, own, **options):
    return Problem.create(
        resources=["cpu", "memory"], capacity=[[1, 2], [4, 3], [2, 6]], contributed_by=[0, 1, 2],
        tenants=["u1", "u2", "u3"], demand=[[1, 1], [3, 2], [1, 3]], own_servers=[own] * 3, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("own", "options", "shares"),
    [
        (False, {}, [9 / 23] * 3),
        (True, {}, [1 / 7, 4 / 7, 6 / 11]),
        (False, {"weights_mode": "contribution"}, [7 / 40, 11 / 20, 21 / 40]),
        (True, {"weights_mode": "contribution"}, [1 / 7, 4 / 7, 6 / 11]),
    ],
)
def test_nobody_loses_by_sharing_its_own_servers(own, options, shares):
    problem = owners(own=own, **options)
    answer = solve(problem, "drfh")
    assert answer.tenant_share == pytest.approx(shares, abs=1e-12)
    assert verify(problem, answer).valid


def test_two_owners():
    problem = Problem.create(
        resources=["cpu", "memory"], capacity=[[1, 2], [4, 3]], contributed_by=[0, 1],
        tenants=["u1", "u2"], demand=[[1, 1], [3, 2]], own_servers=[True, True],
    )  # fmt: skip
    assert solve(problem, "drfh").tenant_share == pytest.approx([1 / 5, 4 / 5], abs=1e-12)
    without = replace(problem, own_servers=np.zeros(2, dtype=bool))
    assert solve(without, "drfh").tenant_share == pytest.approx([12 / 25, 12 / 25], abs=1e-12)


def test_own_servers_have_whole_tasks_that_their_number_does_not_divide():
    """50 tasks on 22 servers are 2.2727… on each, which 22 times is more than 50 by rounding."""
    problem = Problem.create(
        resources=["cpu"], capacity=[[3]], server_count=[22], tenants=["u1"], demand=[[1]],
        tasks=[50], contributed_by=[0], own_servers=[True],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode="indivisible")
    assert answer.tasks.tolist() == [50]
    assert verify(problem, answer).valid


@pytest.mark.parametrize("mode", MODES)
def test_own_servers_of_one_kind_serve_each_workload(mode):
    h100, a10 = {"gpu": ("h100",)}, {"gpu": ("a10",)}
    problem = Problem.create(
        resources=["gpu"], capacity=[[1]] * 4, server_count=[5, 5, 5, 50],
        server_labels=[{"gpu": "h100"}] * 3 + [{"gpu": "a10"}], contributed_by=[0, 1, 2, -1],
        tenants=["A", "B", "C"], workload_tenant=[0, 0, 1, 1, 2],
        workload_names=["h100", "a10", "h100", "a10", "h100"], demand=[[1]] * 5,
        selectors=[h100, a10, h100, a10, h100], own_servers=[True] * 3,
    )  # fmt: skip
    answer = solve(problem, "drfh", mode=mode)
    assert answer.tasks == pytest.approx([5, 25, 5, 25, 5], abs=1e-9)
    assert verify(problem, answer).valid


@pytest.mark.parametrize("mode", MODES)
def test_guarantees_that_collide_are_met_in_the_same_part(mode):
    problem = Problem.create(
        resources=["gpu"], capacity=[[8]], tenants=["a", "b", "c"], demand=[[1]] * 3,
        guarantees=[Guarantee("tenant", tenant, np.array([8.0])) for tenant in (0, 1)],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode=mode)
    assert answer.tasks == pytest.approx([4, 4, 0])
    assert answer.floors.met / answer.floors.floor.clip(1) == pytest.approx([0.5, 0.5, 0])
    assert verify(problem, answer).valid
    assert "of which only 4 run" in explain(answer, 0).sentence


@pytest.mark.parametrize("mode", MODES)
def test_a_floor_holds_on_the_servers_that_match(mode):
    problem = Problem.create(
        resources=["gpu"], capacity=[[8], [8]], server_labels=[{"gpu": "h100"}, {"gpu": "a10"}],
        tenants=["a", "b"], demand=[[1], [1]], weight=[1, 7],
        guarantees=[Guarantee("tenant", 0, np.array([6.0]), {"gpu": ("h100",)})],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode=mode)
    workload, row, tasks = answer.placements_by_row()
    assert tasks[(workload == 0) & (row == 0)].sum() == pytest.approx(6)
    moved = replace(answer, placement_class=1 - answer.placement_class)
    assert not verify(problem, moved).valid
    assert verify(problem, answer).valid


def test_a_group_divides_what_it_is_guaranteed():
    problem = Problem.create(
        resources=["gpu"], capacity=[[100]], tenants=["a", "b", "c"], demand=[[1]] * 3,
        groups=["ml"], tenant_group=[0, 0, -1], weight=[3, 1, 1], group_weight=[0.1],
        guarantees=[Guarantee("group", 0, np.array([40.0])), Guarantee("tenant", 1, np.array([16.0]))],
    )  # fmt: skip
    answer = solve(problem, "drfh")
    assert answer.floors.floor.tolist() == pytest.approx([24, 16, 0])
    assert answer.tasks == pytest.approx([24, 16, 60])
    assert verify(problem, answer).valid


@pytest.mark.parametrize("mode", MODES)
def test_a_limit_of_another_tenant_does_not_bound_the_only_workload_of_a_group(mode):
    problem = Problem.create(
        resources=["cpu", "gpu"], capacity=[[8, 8], [8, 0]],
        server_labels=[{"zone": "a"}, {"zone": "b"}], tenants=["a", "b"], groups=["g"],
        tenant_group=[0, 0], demand=[[1, 1], [1, 0]], tasks=[INF, INF],
        limits=[Limit("tenant", 0, np.array([2.0, INF]))],
        guarantees=[Guarantee("group", 0, np.array([4.0, INF]), {"zone": ("b",)})],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode=mode)
    assert answer.floors.floor.tolist() == [0, 4]
    assert verify(problem, answer).valid


@pytest.mark.parametrize("mode", MODES)
def test_no_more_is_guaranteed_than_a_workload_has(mode):
    zones = [Guarantee("tenant", 0, np.array([4.0]), {"zone": (zone,)}) for zone in "ab"]
    problem = Problem.create(
        resources=["gpu"], capacity=[[8], [8]], server_labels=[{"zone": "a"}, {"zone": "b"}],
        tenants=["a", "b"], demand=[[1], [1]], tasks=[6, INF], guarantees=zones,
    )  # fmt: skip
    answer = solve(problem, "drfh", mode=mode)
    assert answer.floors.floor.tolist() == [6, 0]
    assert answer.tasks == pytest.approx([6, 10])
    assert verify(problem, answer).valid


def test_rounding_between_a_floor_and_all_tasks_is_no_part_of_another_floor():
    """Two floors of three tasks, of which the first lacks a rounding to all, on different servers."""
    problem = Problem.create(
        resources=["gpu"], capacity=[[8], [8]], server_labels=[{"kind": "0"}, {"kind": "1"}],
        tenants=["a", "b"], demand=[[1], [1]], tasks=[3, INF],
        guarantees=[
            Guarantee("tenant", 0, np.array([amount]), {"kind": (kind,)})
            for kind, amount in (("0", 2.999999999999997), ("1", 0.001))
        ],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode="divisible")
    assert answer.floors.pool_of_part.tolist() == [0]
    assert verify(problem, answer).valid


@pytest.mark.parametrize("mode", MODES)
def test_a_contributor_lends_no_more_than_it_says(mode):
    problem = Problem.create(
        resources=["gpu"], capacity=[[5], [5]], contributed_by=[0, 1], tenants=["a", "b"],
        demand=[[1], [1]], tasks=[1, INF], limits=[Limit("lend", 0, np.array([2.0]))],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode=mode)
    assert answer.tasks.tolist() == pytest.approx([1, 7])
    assert answer.limited_by == ("task_limit", "limit:lend")
    assert "what a contributor lends" in explain(answer, 1).sentence
    assert verify(problem, answer).valid


@examples(400)
@given(problems_with_guarantees(one_workload=True))
def test_floors_and_shares_on_servers_agree_with_exact_programs(problem):
    _agrees_with_programs(problem, "drfh")


@examples(400)
@given(problems_with_guarantees(one_workload=True, pooled=True))
def test_floors_and_shares_in_one_pool_agree_with_exact_programs(problem):
    _agrees_with_programs(problem, "drf")


def _agrees_with_programs(problem, policy):
    answer = solve(problem, policy, mode="divisible")
    fractions, shares = leximin_with_floors(problem, pooled=policy == "drf")
    raised = answer.floors.raised
    wanted = raised.problem.tasks[problem.n :]
    met = raised.tasks[problem.n :] / np.where(wanted > 0, wanted, 1)
    assert met == pytest.approx([float(part) for part in fractions], abs=1e-9)
    assert answer.tenant_share == pytest.approx([float(share) for share in shares], abs=1e-8)
    assert verify(problem, answer).valid


@examples(200)
@given(problems_with_guarantees(one_workload=True))
def test_guarantees_that_cannot_be_met_have_the_fractions_of_exact_programs(problem):
    """Four times the amounts, which are more than most of the pools have."""
    guarantees = tuple(replace(each, amount=each.amount * 4) for each in problem.guarantees)
    problem = replace(problem, guarantees=guarantees)
    fractions, _ = leximin_with_floors(problem, pooled=False)
    assume(fractions and min(fractions) < 1 - 1e-6)
    answer = solve(problem, "drfh")
    least = {}
    for fraction, pool in zip(fractions, answer.floors.pool_of_part.tolist(), strict=True):
        least[pool] = min(fraction, least.get(pool, 1))
    expected = [float(least[pool]) for pool in sorted(least) if least[pool] < 1]
    stated = [
        each["met"]
        for each in guarantees_unmet(answer)
        if "no_eligible_server" not in each["limited_by"]
    ]
    assert stated == pytest.approx(expected, abs=1e-9)
    assert verify(problem, answer).valid


@examples(400)
@given(problems_with_guarantees())
def test_several_workloads_of_a_tenant_are_proven(problem):
    assert verify(problem, solve(problem, "drfh")).valid


@pytest.mark.parametrize("placement", ["best-fit", "first-fit", "affinity", "two-choices"])
@examples(400)
@given(problems_with_guarantees())
def test_whole_tasks_on_servers_are_those_of_the_plain_filling(placement, problem):
    answer = solve(problem, "drfh", mode="indivisible", options={"placement": placement})
    guaranteed, tasks = fill_with_floors(problem, placement)
    assert answer.floors.met.tolist() == guaranteed
    assert answer.tasks.tolist() == tasks
    assert verify(problem, answer).valid


@examples(400)
@given(problems_with_guarantees(pooled=True))
def test_whole_tasks_in_one_pool_are_those_of_the_plain_filling(problem):
    answer = solve(problem, "drf", mode="indivisible")
    guaranteed, tasks = fill_with_floors(problem, "pool")
    assert answer.floors.met.tolist() == guaranteed
    assert answer.tasks.tolist() == tasks
    assert verify(problem, answer).valid


@examples(400)
@given(problems_with_guarantees())
def test_tasks_that_stay_in_place_keep_their_floors(problem):
    rng = np.random.default_rng(problem.n)
    problem = replace(problem, server_count=rng.integers(1, 4, problem.k))
    running = current_placements_of(solve(problem, "drfh", mode="indivisible"))
    fewer = np.where(
        rng.random(problem.n) < 0.3, rng.choice([0, 1, 3, 9], problem.n), problem.tasks
    )
    problem = replace(problem, tasks=fewer, weight=rng.integers(1, 4, problem.t).astype(float))
    answer = solve(problem, "drfh", mode="indivisible", running=running)
    assert verify(problem, answer, running=running).valid


@pytest.mark.parametrize("mode", MODES)
@examples(400)
@given(problem=problems_with_guarantees())
def test_an_answer_with_floors_is_written_and_read(mode, problem):
    answer = solve(problem, "drfh", mode=mode)
    parsed = problem_from_document(problem_to_document(ParsedProblem(problem, "drfh", mode)))
    document = allocation_to_document(answer, include=["certificate", "placements"])
    assert verify_answer(parsed, document, parsed.choice).valid
    del document["floors"]
    assert not verify_answer(parsed, document, parsed.choice).valid


def document(guarantee, policy="drfh", **fields):
    return {
        "resources": ["cpu", "gpu"],
        "servers": [{"capacity": {"cpu": 64, "gpu": 8}, "labels": {"gpu": "a100"}}],
        "groups": [{"name": "ml", "guarantee": guarantee}],
        "tenants": [{"name": "A", "group": "ml"}, {"name": "B"}],
        "workloads": [
            {"tenant": name, "name": "w", "demand": {"cpu": 4, "gpu": 1}} for name in ("A", "B")
        ],
        "policy": {"name": policy},
        **fields,
    }


def test_documents_are_read_and_written():
    given = document(
        [{"where": {"gpu": "a100"}, "amount": {"gpu": 4}}], own_servers=True, count="above"
    )
    given["tenants"][1] |= {"own_servers": False, "lend": [{"amount": {"gpu": 0}}]}
    parsed = problem_from_document(given)
    assert parsed.problem.own_servers.tolist() == [True, False]
    assert not parsed.problem.count_guaranteed
    again = problem_from_document(problem_to_document(parsed)).problem
    assert again.guarantees[0].where == parsed.problem.guarantees[0].where
    assert again.limits[0].scope == "lend"
    assert again.own_servers.tolist() == [True, False]


@pytest.mark.parametrize(
    ("guarantee", "code", "pointer"),
    [
        ({"gpu": 4}, "field.type", "/groups/0/guarantee"),
        (
            [{"amount": {"tpu": 4}}],
            "guarantee.unknown_resource",
            "/groups/0/guarantee/0/amount/tpu",
        ),
        ([{"amount": {}}], "guarantee.empty", "/groups/0/guarantee/0/amount"),
        ([{"amount": {"gpu": -1}}], "quantity.negative", "/groups/0/guarantee/0/amount/gpu"),
        (
            [{"amount": {"gpu": 1}, "from": None}],
            "guarantee.interval",
            "/groups/0/guarantee/0/from",
        ),
    ],
)
def test_documents_that_are_refused(guarantee, code, pointer):
    with pytest.raises(ProblemError) as error:
        problem_from_document(document(guarantee))
    assert (error.value.code, error.value.pointer) == (code, pointer)


@pytest.mark.parametrize(
    ("guarantee", "code"),
    [
        (Guarantee("group", 1, np.array([INF, 4])), "guarantee.node"),
        (Guarantee("workload", 0, np.array([INF, 4])), "guarantee.node"),  # type: ignore[arg-type]
        (Guarantee("group", 0, np.array([INF, INF])), "guarantee.empty"),
        (Guarantee("group", 0, np.array([4.0])), "problem.shape"),
        (Guarantee("group", 0, np.array([np.nan, 4])), "guarantee.amount"),
        (Guarantee("group", 0, np.array([1e13, INF])), "guarantee.amount"),
    ],
)
def test_guarantees_that_are_refused(guarantee, code):
    problem = problem_from_document(document([])).problem
    with pytest.raises(ProblemError) as error:
        replace(problem, guarantees=(guarantee,))
    assert error.value.code == code


@pytest.mark.parametrize("policy", ["ceei", "tda", "static", "mrfs", "h-mrf", "asset", "slots"])
def test_policies_without_guarantees_refuse_them(policy):
    problem = two_tenants()
    with pytest.raises(PolicyNotApplicableError) as error:
        solve(problem, policy)
    assert error.value.code == "policy.no_guarantees"


def test_one_pool_has_no_kinds_of_servers():
    problem = problem_from_document(
        document([{"where": {"gpu": "a100"}, "amount": {"gpu": 4}}], "drf")
    ).problem
    with pytest.raises(PolicyNotApplicableError) as error:
        solve(problem, "drf")
    assert error.value.code == "policy.no_placement"
    assert error.value.pointer == "/groups/0/guarantee"


def test_too_many_selectors_are_refused():
    problem = two_tenants()
    many = tuple(
        Guarantee("tenant", 0, np.array([1.0]), {"rack": (str(rack),)}) for rack in range(11)
    )
    with pytest.raises(ProblemTooLargeError, match="11 different selectors"):
        solve(replace(problem, guarantees=many), "drfh")


@pytest.mark.parametrize("amount", [0.0, 1e12, 1e-12])
@pytest.mark.parametrize("mode", MODES)
def test_amounts_at_the_edges(amount, mode):
    problem = two_tenants()
    some = tuple(replace(each, amount=np.array([amount])) for each in problem.guarantees)
    problem = replace(problem, guarantees=some)
    answer = solve(problem, "drfh", mode=mode)
    assert answer.tasks == pytest.approx([50, 50])
    assert verify(problem, answer).valid


@pytest.mark.parametrize("mode", MODES)
def test_a_guarantee_of_servers_that_do_not_exist_gives_nothing_and_is_unmet(mode):
    problem = two_tenants()
    some = tuple(replace(each, where={"zone": ("nowhere",)}) for each in problem.guarantees)
    problem = replace(problem, guarantees=some)
    answer = solve(problem, "drfh", mode=mode)
    assert answer.floors.floor.tolist() == [0, 0]
    assert answer.tasks == pytest.approx([50, 50])
    unmet = [
        {"node": {"tenant": name}, "where": {"zone": ["nowhere"]}, "amount": {"gpu": amount},
         "met": 0.0, "limited_by": ["no_eligible_server"]}
        for name, amount in (("a", 40.0), ("b", 10.0))
    ]  # fmt: skip
    assert guarantees_unmet(answer) == unmet
    idle = replace(problem, tasks=np.array([0.0, INF]))
    assert guarantees_unmet(solve(idle, "drfh", mode=mode)) == unmet[1:]
    none = replace(problem, guarantees=(replace(some[0], amount=np.array([0.0])),))
    assert guarantees_unmet(solve(none, "drfh", mode=mode)) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("capacity", "draining", "selects", "unmet"),
    [
        ([[16], [16]], [False, True], {}, True),
        ([[16], [0]], [False, False], {}, True),
        ([[16], [16]], [False, True], {"gpu": ("h100",)}, True),
        # What a workload does not select is not guaranteed to it.
        ([[16], [16]], [False, True], {"gpu": ("a100",)}, False),
        ([[16], [16]], [False, False], {}, False),
    ],
    ids=["draining", "without the resource", "selected and draining", "not selected", "active"],
)
def test_a_guarantee_of_servers_that_offer_nothing_is_unmet(
    mode, capacity, draining, selects, unmet
):
    problem = Problem.create(
        resources=["gpu"], capacity=capacity, contributed_only=draining, tenants=["a", "b"],
        server_labels=[{"gpu": "a100"}, {"gpu": "h100"}], demand=[[1], [1]],
        selectors=[selects, {}],
        guarantees=[Guarantee("tenant", 0, np.array([12.0]), {"gpu": ("h100",)})],
    )  # fmt: skip
    found = guarantees_unmet(solve(problem, "drfh", mode=mode))
    assert [(each["met"], each["limited_by"]) for each in found] == [
        (0.0, ["no_eligible_server"])
    ] * unmet


def test_a_guarantee_of_gangs_lacks_a_server_for_each_piece():
    pieces = Gang(count=np.array([1, 1]), demand=np.array([[1.0, 0.0], [0.0, 1.0]]), at_least=1)
    for memory, unmet in ((4, 0), (0, 1)):
        problem = Problem.create(
            resources=["cpu", "memory"], capacity=[[4, 0], [0, memory], [0, 4]], tenants=["mpi"],
            demand=[[0, 0]], gangs={0: pieces}, server_labels=[{"a": "b"}, {"a": "b"}, {}],
            guarantees=[Guarantee("tenant", 0, np.array([2.0, INF]), {"a": ("b",)})],
        )  # fmt: skip
        found = guarantees_unmet(solve(problem, "drfh", mode="indivisible"))
        assert [each["limited_by"] for each in found] == [["no_eligible_server"]] * unmet


def test_a_guarantee_beside_which_a_task_is_too_small_is_unmet():
    problem = Problem.create(
        resources=["gpu"], capacity=[[32]], tenants=["a", "b", "c"], demand=[[1], [1], [1]],
        groups=["ml"], tenant_group=[0, 0, -1],
        guarantees=[Guarantee("group", 0, np.array([1e10]))],
    )  # fmt: skip
    answer = solve(problem, "drfh")
    assert [(each["met"], each["limited_by"]) for each in guarantees_unmet(answer)] == [
        (0.0, ["out_of_range"])
    ]
    assert verify(problem, answer).valid


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", ["drf", "drfh"])
@pytest.mark.parametrize("own_servers", [False, True])
@pytest.mark.parametrize("rows", [0, 1])
def test_a_guarantee_of_a_pool_that_has_nothing_is_unmet(mode, policy, own_servers, rows):
    problem = Problem.create(
        resources=["gpu"], capacity=np.zeros((rows, 1)), tenants=["a", "b"], demand=[[1], [1]],
        own_servers=[own_servers, False], guarantees=[Guarantee("tenant", 0, np.array([4.0]))],
        limits=[Limit("tenant", 1, np.array([2.0]))],
    )  # fmt: skip
    answer = solve(problem, policy, mode=mode)
    assert [each["limited_by"] for each in guarantees_unmet(answer)] == [["no_eligible_server"]]
    assert verify(problem, answer).valid


def test_properties_of_an_answer_with_guarantees_are_decided():
    answer = solve(contested_problem(np.random.default_rng(3)), "drfh")
    verdicts = properties_of(answer, seconds=5).verdicts
    assert verdicts["pareto_optimal"].holds


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", ["drf", "drfh"])
def test_a_tenant_without_workloads_has_no_level(policy, mode):
    """Answers of documents state none; that of any other tenant must be stated."""
    given = document([{"amount": {"gpu": 4}}], policy)
    given["tenants"].append({"name": "idle"})
    given["policy"]["mode"] = mode
    parsed = problem_from_document(given)
    answer = solve(parsed.problem, policy, mode=mode)
    written = allocation_to_document(answer, include=["certificate", "placements"])
    found = verify_answer(parsed, written, parsed.choice)
    assert found.valid, [each for each in found.checks if not each.holds]
    forged = replace(answer, level=np.where(np.arange(3) == 0, np.nan, answer.level))
    assert not verify(parsed.problem, forged).valid


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scope", ["tenant", "workload"])
@pytest.mark.parametrize("policy", ["drf", "drfh"])
def test_a_limit_of_a_resource_that_is_not_guaranteed_leaves_the_others_more(mode, scope, policy):
    """`a` may have 6 GPUs, so that 34 of the 40 guaranteed CPUs are for `b`."""
    problem = Problem.create(
        resources=["gpu", "cpu"], capacity=[[8, 64]], server_count=[4], tenants=["a", "b", "c"],
        demand=[[1, 1], [0, 1], [0, 1]], weight=[1, 1, 100], groups=["h"], tenant_group=[0, 0, -1],
        limits=[Limit(scope, 0, np.array([6.0, INF]))],
        guarantees=[Guarantee("group", 0, np.array([INF, 40.0]))],
    )  # fmt: skip
    answer = solve(problem, policy, mode=mode)
    assert answer.floors.floor == pytest.approx([6, 34, 0])
    assert answer.tasks == pytest.approx([6, 34, 216])
    assert guarantees_unmet(answer) == []
    assert verify(problem, answer).valid


@pytest.mark.parametrize("mode", MODES)
def test_one_workload_has_no_floor_beyond_a_limit_of_another_resource(mode):
    problem = Problem.create(
        resources=["gpu", "cpu"], capacity=[[8, 64]], tenants=["a"], demand=[[1, 1]],
        limits=[Limit("workload", 0, np.array([6.0, INF]))],
        guarantees=[Guarantee("tenant", 0, np.array([INF, 40.0]))],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode=mode)
    assert answer.floors.floor.tolist() == [6]
    assert guarantees_unmet(answer) == []
    assert verify(problem, answer).valid


@pytest.mark.parametrize("mode", MODES)
def test_tasks_of_an_odd_shape_leave_the_floors_of_others(mode):
    """Alone they would need 10^9 GPUs for the guaranteed CPUs."""
    problem = Problem.create(
        resources=["gpu", "cpu"], capacity=[[8, 64]], server_count=[4], tenants=["a", "b"],
        demand=[[0.01, 1], [8, 1e-6]], tasks=[INF, 1], groups=["h"], tenant_group=[0, 0],
        limits=[Limit("tenant", 0, np.array([0.06, INF]))],
        guarantees=[Guarantee("group", 0, np.array([INF, 40.0]))],
    )  # fmt: skip
    answer = solve(problem, "drfh", mode=mode)
    assert answer.floors.floor[0] == pytest.approx(6)
    assert guarantees_unmet(answer) == []
    assert verify(problem, answer).valid
