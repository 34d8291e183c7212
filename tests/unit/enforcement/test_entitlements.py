"""Who has what a tenant is entitled to: exactly as much is lent as is borrowed."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator_service.enforcement.entitlements import entitlements
from allocator_service.pools.models import Pool
from policies import PolicyError
from tests.examples import examples
from tests.unit.enforcement.decisions import DECIDED_AT, POLICIES, decide, document


def pool_document(**changes):
    """12 CPUs; ada is entitled to 6, bob and carl to 3 each. ada wants 2, bob 8, carl 1."""
    tenants = [
        {"name": "ada", "weight": 2},
        {"name": "bob", "weight": 1},
        {"name": "carl", "weight": 1},
    ]
    return {
        "resources": [{"name": "cpu", "unit": ""}],
        "servers": [{"name": "s", "capacity": {"cpu": 12}, "count": 1, "labels": {}}],
        "tenants": tenants,
        "workloads": [
            {"tenant": name, "name": "w", "demand": {"cpu": 1}, "tasks": tasks}
            for name, tasks in (("ada", 2), ("bob", 8), ("carl", 1))
        ],
        "policy": {"name": "drfh", "mode": "indivisible", "options": {}},
        "weights": "explicit",
    } | changes


def pool(*, long_term=False):
    return Pool(
        slug="lab",
        policy_long_term=long_term,
        decision_interval="PT1H",
        window_anchor=DECIDED_AT,
        timezone="UTC",
    )


def cpus(vector):
    return [str(amount.normalize()) for amount in vector]


def test_who_has_mine_is_said_per_tenant():
    rows = {row.tenant: row for row in entitlements(decide(pool_document()), pool(), DECIDED_AT)}
    ada, bob, carl = rows["ada"], rows["bob"], rows["carl"]
    assert [cpus(each.entitled) for each in (ada, bob, carl)] == [["6"], ["3"], ["3"]]
    assert [cpus(each.has) for each in (ada, bob, carl)] == [["2"], ["8"], ["1"]]
    # The largest lender first: ada has 4 to spare and carl 2, of which bob needs 5.
    assert ada.lent_to.keys() == carl.lent_to.keys() == {"bob"}
    assert (cpus(ada.lent), cpus(carl.lent), cpus(bob.borrowed)) == (["4"], ["1"], ["5"])
    assert (cpus(ada.unused), cpus(carl.unused)) == (["0"], ["1"])
    assert {slug: cpus(of) for slug, of in bob.borrowed_from.items()} == {
        "ada": ["4"],
        "carl": ["1"],
    }
    assert (ada.returns.when, ada.returns.at, bob.returns) == ("at_once", None, None)


def test_under_a_long_term_policy_it_returns_at_the_next_boundary():
    at = DECIDED_AT + timedelta(minutes=10)
    (ada, *_) = entitlements(decide(pool_document()), pool(long_term=True), at)
    assert (ada.returns.when, ada.returns.at) == ("next_boundary", DECIDED_AT + timedelta(hours=1))


def test_where_time_is_divided_it_returns_with_the_next_slot():
    asked = pool_document(
        resources=[{"name": "cpu", "unit": ""}, {"name": "memory", "unit": "GiB"}],
        servers=[{"name": "s", "capacity": {"cpu": 4, "memory": 4}, "count": 1, "labels": {}}],
        tenants=[{"name": "ada", "weight": 1}, {"name": "bob", "weight": 1}],
        workloads=[
            {"tenant": name, "name": "w", "demand": {"cpu": 3, "memory": 3}, "tasks": None}
            for name in ("ada", "bob")
        ],
        policy={"name": "tda", "mode": "indivisible", "options": {"period_seconds": 600}},
    )
    decided = decide(asked)
    first, second = decided.slots
    assert (first.start, second.start) == (0, 300)
    (runs_first,) = {slug for slug, _ in first.amounts}
    for seconds, holder, next_start in ((0, runs_first, 300), (299, runs_first, 300)):
        at = DECIDED_AT + timedelta(seconds=seconds)
        rows = {row.tenant: row for row in entitlements(decided, pool(), at)}
        (other,) = rows.keys() - {holder}
        assert cpus(rows[holder].has) == ["3", "3"]
        assert rows[other].returns.when == "next_slot"
        assert rows[other].returns.at == DECIDED_AT + timedelta(seconds=next_start)
    late = DECIDED_AT + timedelta(seconds=900)  # in the second slot of the second period
    rows = {row.tenant: row for row in entitlements(decided, pool(), late)}
    assert rows[runs_first].returns.at == DECIDED_AT + timedelta(seconds=1200)


def test_who_is_served_last_is_entitled_to_nothing():
    tenants = [{"name": "ada", "weight": 2}, {"name": "bob", "weight": 1, "best_effort": True}]
    asked = pool_document(tenants=tenants)
    asked["workloads"].pop()
    rows = {row.tenant: row for row in entitlements(decide(asked), pool(), DECIDED_AT)}
    assert (cpus(rows["ada"].entitled), cpus(rows["bob"].entitled)) == (["12"], ["0"])
    assert cpus(rows["bob"].borrowed) == ["8"]


@pytest.mark.parametrize("tenants", [[], [{"name": "ada", "weight": 1}]])
def test_a_pool_without_anything_lends_nothing(tenants):
    asked = pool_document(servers=[], tenants=tenants, workloads=[])
    rows = entitlements(decide(asked), pool(), DECIDED_AT)
    assert [(cpus(row.entitled), row.returns) for row in rows] == [(["0"], None)] * len(tenants)


@given(st.integers(0, 2**32), st.sampled_from(POLICIES))
@examples(500)
def test_all_that_is_lent_is_all_that_is_borrowed(seed, chosen):
    try:
        decided = decide(document(seed, *chosen))
    except PolicyError:
        return
    rows = entitlements(decided, pool(), DECIDED_AT + timedelta(seconds=7))
    by_name = {row.tenant: row for row in rows}
    for r in range(len(decided.resources)):
        capacity = sum((offered[r] for offered in decided.capacity.values()), Decimal(0))
        assert sum(row.entitled[r] for row in rows) == capacity
        assert sum(row.lent[r] for row in rows) == sum(row.borrowed[r] for row in rows)
        for row in rows:
            balance = row.has[r] + row.lent[r] + row.unused[r] - row.borrowed[r]
            assert abs(row.entitled[r] - balance) <= Decimal("1e-9")
            assert not (row.lent[r] and row.borrowed[r])
            for other, amounts in row.lent_to.items():
                assert by_name[other].borrowed_from[row.tenant][r] == amounts[r] >= 0
