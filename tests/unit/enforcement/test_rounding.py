"""Limits in whole units: at most one unit from the decision, never above what there is."""

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator_service.enforcement.rendering.limits import decision_limits
from allocator_service.enforcement.rendering.rounding import whole_limits
from allocator_service.enforcement.rendering.units import kai_units, kubernetes_units, slurm_units
from policies import PolicyError
from tests.examples import examples
from tests.unit.enforcement.decisions import DECIDED_AT, POLICIES, decide, document

PER = {  # target units in one unit of the pool: core, GiB, GPU
    slurm_units: {"cpu": 1, "memory": 1024, "gpu": 1},
    kubernetes_units: {"cpu": 1000, "memory": 2**30, "gpu": 1},
    kai_units: {"cpu": 1000, "memory": Fraction(2**30, 10**6), "gpu": 1},
}


def one_by_one(amounts, capacity, ranks):
    """The reference: a unit at a time, to the largest remainder that is left."""
    limits = [amount.numerator // amount.denominator for amount in amounts]
    if sum(limits) > capacity:
        while sum(limits) > capacity:
            largest = max(
                (i for i, limit in enumerate(limits) if limit), key=lambda i: amounts[i] // 1
            )
            limits[largest] -= min(limits[largest], sum(limits) - capacity)
        return limits
    left = [amount - limit for amount, limit in zip(amounts, limits, strict=True)]
    rest = sum(left) + min(Fraction(1, 10**9) * max(sum(amounts), 1), Fraction(1, 2))
    while rest >= 1 and sum(limits) < capacity and any(each > 0 for each in left):
        index = max(range(len(left)), key=lambda i: (left[i], tuple(-x for x in ranks[i])))
        limits[index] += 1
        left[index] = Fraction(0)
        rest -= 1
    return limits


def ranks_of(count):
    return [(float(index), index) for index in range(count)]


@pytest.mark.parametrize(
    ("amounts", "capacity", "limits"),
    [
        (["8", "3"], 16, [8, 3]),  # whole tasks lose nothing
        (["8.5"], 16, [8]),  # half a unit is no unit
        (["8.5", "7.5"], 16, [9, 7]),  # equal remainders: the policy's first
        (["3.3", "3.3", "3.4"], 10, [3, 3, 4]),  # the largest remainder
        (["3.333333333333333", "3.333333333333333", "3.333333333333334"], 10, [4, 3, 3]),
        (["9.999999999999998", "1.9999999999999996"], 12, [10, 2]),  # what doubles leave out
        (["10.000000000000002"], 10, [10]),
        (["5.5", "5.5"], 10, [5, 5]),  # a capacity of 10.9
        (["0", "0"], 0, [0, 0]),
        (["0.4"], 0, [0]),
        ([], 7, []),
    ],
)
def test_the_rest_goes_to_the_largest_remainders(amounts, capacity, limits):
    given_ = [Decimal(amount) for amount in amounts]
    assert whole_limits(given_, capacity, ranks_of(len(given_))) == limits


def test_what_doubles_add_above_the_capacity_is_taken_from_the_largest():
    of_bytes = [Decimal(2**40) + 3, Decimal(2**30)]
    assert whole_limits(of_bytes, 2**40 + 2**30, ranks_of(2)) == [2**40, 2**30]


amounts_strategy = st.lists(
    st.decimals(min_value=0, max_value=40, places=3), min_size=0, max_size=8
)


@given(amounts_strategy, st.integers(0, 120))
@examples(2_000)
def test_limits_are_those_handed_out_one_by_one(amounts, capacity):
    ranks = [(float(-index % 3), index) for index in range(len(amounts))]
    limits = whole_limits(amounts, capacity, ranks)
    assert limits == one_by_one([Fraction(amount) for amount in amounts], capacity, ranks)
    assert sum(limits) <= capacity


@given(st.integers(0, 2**32), st.sampled_from(POLICIES), st.sampled_from(list(PER)))
@examples(2_000)
def test_no_decision_of_any_policy_is_rendered_above_capacity(seed, chosen, units_of):
    asked = document(seed, *chosen)
    try:
        decided = decide(asked)
    except PolicyError:
        return  # the policy does not take this pool
    limits = decision_limits(
        decided,
        label="partition",
        units=units_of(decided.resources),
        members=["newcomer"],
        quota="hard",
        at=DECIDED_AT,
    )
    names = [resource["name"] for resource in asked["resources"]]
    per = [Fraction(PER[units_of][name]) for name in names]
    capacity = defaultdict(lambda: [Fraction(0)] * len(names))
    for server in asked["servers"]:
        for at in (server["labels"].get("partition") if decided.placed else None, "all"):
            if not server.get("draining"):
                capacity[at] = [
                    held + Fraction(str(server["capacity"][name])) * server["count"] * unit
                    for held, name, unit in zip(capacity[at], names, per, strict=True)
                ]
    parts = [slot.limits for slot in limits.slots] or [
        {(t.slug, name): of for t in limits.tenants for name, of in t.by_class.items()}
    ]
    for part in parts:
        of_class = defaultdict(lambda: [0] * len(names))
        for (_, name), of in part.items():
            for at in (name, "all"):
                of_class[at] = [a + b for a, b in zip(of_class[at], of, strict=True)]
        for name, sums in of_class.items():
            assert all(a <= b for a, b in zip(sums, capacity[name], strict=True)), (name, sums)
    assert limits.tenants[-1].slug == "newcomer"
    assert not any(limits.tenants[-1].rendered)
    for tenant in limits.tenants:
        for amount, rendered, lost, unit in zip(
            tenant.decided, tenant.rendered, tenant.lost, per, strict=True
        ):
            exact = Fraction(amount)
            assert exact - Fraction(rendered) / unit == Fraction(lost)
            # A unit a class at most, and nothing where whole units were decided.
            classes = len(decided.capacity) if limits.slots else max(len(tenant.by_class), 1)
            assert abs(exact * unit - rendered) < classes + Fraction(1, 1000)
            if decided.whole_tasks and len(tenant.by_class) <= 1 and (exact * unit) % 1 == 0:
                assert rendered == exact * unit
