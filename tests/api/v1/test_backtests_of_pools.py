"""Backtests of a pool's own history: who sees what of it, and what it would have cost."""

from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine

from allocator_service.core.clock import utc_now
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.pools.group_services import GroupSettings, group_update
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import MembershipTerms
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from tests import factories
from tests.api.v1.test_backtests import ALL, finished, results
from tests.api.v1.test_conventions import code
from tests.backtests import CSV, asked
from tests.integration.billing.conftest import publish, rate

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def begin():
    return (utc_now() - timedelta(days=5)).replace(minute=0, second=0, microsecond=0)


def pool_with_a_past(begin, *, transparent):
    """`ada` and `bobtext` with a server each of four cores; both ran, one after the other, on both."""
    ada, bob = factories.tenant("ada"), factories.tenant("bobtext")
    lab = factories.pool("lab", transparent=transparent)
    for tenant in (ada, bob):
        servers_contribute(
            pool=lab,
            drafts=[ServerDraft(f"{tenant.slug}-server", factories.vector(4, 16), tenant)],
            now=begin - HOUR,
        )
    for tenant, since in ((ada, 0), (bob, 1)):
        workload = factories.workload(lab, f"{tenant.slug}-work", 1, 2, tenant)
        for number in range(8):
            for resource, quantity in (("cpu", 1), ("memory", 2)):
                entries_append(
                    [
                        {
                            "pool_id": lab.pk,
                            "tenant_id": tenant.pk,
                            "server_owner_id": None,
                            "workload_id": workload.pk,
                            "resource": resource,
                            "unit": "core" if resource == "cpu" else "GiB",
                            "quantity": Decimal(quantity),
                            "start": begin + since * HOUR,
                            "end": begin + (since + 2) * HOUR,
                            "kind": "usage",
                            "corrects": None,
                            "reason": "",
                            "source": "slurm",
                            "event_id": f"{tenant.slug}-{number}",
                            "run_id": None,
                            "recorded_at": utc_now(),
                        }
                    ]
                )
    return lab, ada, bob


def question(begin, **more):
    return {
        "pool": "lab",
        "history": {"from": begin.isoformat(), "to": (begin + 6 * HOUR).isoformat()},
        "policies": ["static", "drfh"],
        **more,
    }


def test_an_operator_replays_a_pool_and_sees_what_everybody_would_pay(begin, operator):
    lab, *_ = pool_with_a_past(begin, transparent=False)
    publish(
        lab, begin - timedelta(days=1),
        rate(own="0.10", shared="0.40", pooled="1", outside="2"), fee=Decimal(0),
    )  # fmt: skip
    result = results(operator, question(begin))
    assert (result["currency"], result["price_plan"] is not None) == ("EUR", True)
    static, drfh = result["columns"]
    # Each has 16 core-hours of work and a server of four cores.
    rows = {row["tenant"]: row for row in drfh["tenants"]}
    assert rows["ada"]["submitted"] == rows["bobtext"]["submitted"] == 8
    # ada has both servers for two hours: eight core-hours at 0.10 on its own, eight at 0.40.
    assert rows["ada"]["charged"] == "4.00"
    assert rows["ada"]["mean_waiting"] == 0
    assert {row["mean_waiting"] for row in static["tenants"]} == {3600.0}
    assert drfh["money"]["unpriced"] == ["memory"]
    assert Decimal(drfh["money"]["charged"]) == sum(
        Decimal(row["charged"]) for row in drfh["tenants"]
    )
    paid = {row["tenant"]: Decimal(row["paid"]) for row in drfh["tenants"]}
    assert paid["ada"] + paid["bobtext"] == Decimal("1.60")  # what is paid to each other cancels


def test_a_tenant_of_a_transparent_pool_gets_all_of_it_under_pseudonyms(begin):
    _, ada, _ = pool_with_a_past(begin, transparent=True)
    as_ada = factories.client("tenant", ada)
    found = finished(as_ada, question(begin))
    for path in ("", "results/", "results/?format=csv", "results/?format=svg",
                 "results/?format=html"):  # fmt: skip
        assert "bobtext" not in as_ada.get(f"{ALL}{found['id']}/{path}").content.decode()
    rows = as_ada.get(f"{ALL}{found['id']}/results/").json()["columns"][1]["tenants"]
    assert [row["tenant"] == "ada" for row in rows] == [True, False]
    assert rows[1]["tenant"].startswith("member-")


def test_a_tenant_sees_its_own_money_only(begin):
    lab, ada, _ = pool_with_a_past(begin, transparent=True)
    publish(lab, begin - timedelta(days=1), rate(own="0.10", shared="0.40", pooled="1"))
    column = results(factories.client("tenant", ada), question(begin))["columns"][1]
    assert [row["charged"] is None for row in column["tenants"]] == [False, True]
    assert column["money"]["charged"] is None


def test_a_tenant_of_another_pool_gets_its_own_usage_on_its_own_servers(begin):
    _, ada, _ = pool_with_a_past(begin, transparent=False)
    found = results(factories.client("tenant", ada), question(begin))
    assert found["input"]["tasks"] == 8
    assert found["input"]["servers"] == 1
    assert [row["tenant"] for row in found["columns"][0]["tenants"]] == ["ada"]


def test_a_trace_may_run_on_the_servers_of_a_pool(begin, operator):
    _, ada, _ = pool_with_a_past(begin, transparent=False)
    body = asked(servers=[], pool="lab")
    assert results(operator, body)["input"]["servers"] == 2
    refused = factories.client("tenant", ada).post(ALL, body)
    assert code(refused) == (422, "backtest.no_servers")


def test_names_in_an_own_trace_stay(begin):
    _, ada, _ = pool_with_a_past(begin, transparent=True)
    content = CSV.replace("physics", "bobtext")
    found = results(factories.client("tenant", ada), asked(content, servers=[], pool="lab"))
    names = [row["tenant"] for row in found["columns"][0]["tenants"]]
    assert names[:2] == ["bobtext", "chemistry"]
    assert all(name == "ada" or name.startswith("member-") for name in names[2:])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"pool": "nowhere"}, "pool.unknown"),
        ({"pool": None}, "backtest.source"),
        ({"history": None}, "backtest.source"),
        ({"trace": {"format": "csv", "content": CSV}}, "backtest.source"),
        ({"price_plan": "01a1fa35-2b84-7418-8537-e4019453fdf6"}, "price_plan.unknown"),
    ],
)
def test_what_is_no_question_is_refused(begin, operator, change, expected):
    pool_with_a_past(begin, transparent=False)
    answer = operator.post(ALL, question(begin) | change)
    assert code(answer) == (422, expected)
    assert operator.get(ALL).json()["results"] == []


def test_a_foreign_pool_is_one_that_is_not_there(begin, operator):
    pool_with_a_past(begin, transparent=False)
    eve = factories.tenant("eve")
    member_put(
        pool=factories.pool("other"), tenant=eve, weight=Decimal(1), best_effort=False,
        version=None, now=utc_now(),
    )  # fmt: skip
    as_eve = factories.client("tenant", eve)
    foreign, unknown = (
        as_eve.post(ALL, question(begin, pool=pool)).json() for pool in ("lab", "nowhere")
    )
    assert foreign["detail"].replace("lab", "nowhere") == unknown["detail"]
    assert foreign["code"] == unknown["code"] == "pool.unknown"


def test_a_period_without_usage_or_in_the_future_is_refused(begin, operator):
    pool_with_a_past(begin, transparent=False)
    empty = question(begin - timedelta(days=3))
    found = finished(operator, empty)
    assert (found["status"], found["error"]["code"]) == ("failed", "trace.empty")
    ahead = question(begin) | {
        "history": {"from": begin.isoformat(), "to": (utc_now() + HOUR).isoformat()}
    }
    assert code(operator.post(ALL, ahead)) == (422, "backtest.period")
    turned = {"from": (begin + HOUR).isoformat(), "to": begin.isoformat()}
    assert code(operator.post(ALL, question(begin, history=turned))) == (422, "backtest.period")


def test_a_key_that_is_bound_to_a_pool_has_no_backtests(begin):
    pool_with_a_past(begin, transparent=False)
    bound = factories.client("operator", pool="lab")
    assert code(bound.post(ALL, question(begin))) == (403, "auth.pool")
    assert code(bound.get(ALL)) == (403, "auth.pool")


def in_one_pool(begin, groups=()):
    """Three members that each want all eight cores for an hour, in a tree from an hour before."""
    with time_machine.travel(begin - HOUR, tick=False):
        lab = factories.pool("lab", transparent=True)
        tenants = [factories.tenant(slug) for slug in ("ada", "bob", "carl")]
        for slug in dict.fromkeys(groups):
            factories.group(lab, slug)
        for tenant, slug in zip(tenants, groups or (None,) * 3, strict=True):
            factories.member(lab, tenant, slug)
        only = [ServerDraft("only", factories.vector(8, 64), None)]
        servers_contribute(pool=lab, drafts=only, now=utc_now())
        workloads = [factories.workload(lab, f"{each.slug}-work", 1, 1, each) for each in tenants]
    for workload in workloads:
        for number in range(8):
            for resource in ("cpu", "memory"):
                entries_append([{
                    "pool_id": lab.pk, "tenant_id": workload.tenant_id, "server_owner_id": None,
                    "workload_id": workload.pk, "resource": resource,
                    "unit": "core" if resource == "cpu" else "GiB", "quantity": Decimal(1),
                    "start": begin, "end": begin + HOUR, "kind": "usage", "corrects": None,
                    "reason": "", "source": "slurm", "event_id": f"{workload.name}-{number}",
                    "run_id": None, "recorded_at": utc_now(),
                }])  # fmt: skip
    return lab, tenants


def waits(result):
    return {
        column["policy"]["name"]: {row["tenant"]: row["mean_waiting"] for row in column["tenants"]}
        for column in result["columns"]
        if column["tenants"] is not None
    }


def test_the_history_of_a_tree_is_decided_by_its_groups_at_each_instant(begin, operator):
    """ada alone in a group has 4 of 8 cores, bob and carl of the other 2 each; then they change."""
    lab, (ada, bob, carl) = in_one_pool(begin, ("single", "double", "double"))
    asked = question(begin, policies=["drfh", "asset"])
    result = results(operator, asked)
    asset = result["columns"][1]
    assert (asset["tenants"], asset["error"]["code"]) == (None, "policy.no_groups")
    waiting = waits(result)["drfh"]
    # ada: 4 tasks at once, 4 an hour later. bob and carl: 2, then 2, then 4 each.
    assert waiting == {"ada": 1800.0, "bob": 4500.0, "carl": 4500.0}
    flat = [{"name": each.slug} for each in (ada, bob, carl)]
    grouped = {
        "groups": [{"name": "one"}, {"name": "two"}],
        "tenants": [
            {**row, "group": group} for row, group in zip(flat, ("one", "two", "two"), strict=True)
        ],
    }
    assert waits(results(operator, {**asked, **grouped}))["drfh"] == waiting
    without = waits(results(operator, {**asked, "tenants": flat}))
    assert without["drfh"]["ada"] > waiting["ada"]
    assert without.keys() == {"drfh", "asset"}
    # From half an hour on the second group has three times the weight: 2, 3 and 3 begin in the second
    # hour, and as many in the third.
    with time_machine.travel(begin + HOUR / 2, tick=False):
        group = lab.groups.get(slug="double")
        settings = GroupSettings("Double", None, Decimal(3))
        group_update(group=group, settings=settings, version=None, now=utc_now())
    later = waits(results(operator, asked))["drfh"]
    assert later == {"ada": 2700.0, "bob": 4050.0, "carl": 4050.0}


def test_the_history_of_a_pool_keeps_its_limits_as_they_were(begin, operator):
    """ada is limited to two cores, until half an hour has passed or for good."""
    lab, (ada, *_) = in_one_pool(begin, ("single", "double", "double"))
    asked = question(begin, policies=["drfh", "h-mrf"])
    until = (begin + HOUR / 2).isoformat()
    row = {"where": {}, "amount": {"cpu": "2"}}
    terms = lab.groups.get(slug="single").terms.get()
    for dates, expected in (
        # 2, 4 and 2 tasks of ada, 3, 2 and 3 of the others.
        ({"to": until}, {"ada": 3600.0, "bob": 3600.0, "carl": 3600.0}),
        # 2 of ada in each of four hours, 3, 3 and 2 of the others.
        ({}, {"ada": 5400.0, "bob": 3150.0, "carl": 3150.0}),
    ):
        terms.limit = [{**row, **dates}]
        terms.save()
        result = results(operator, asked)
        assert waits(result) == {"drfh": expected}
        assert result["columns"][1]["error"]["code"] == "policy.no_limits"
    member = MembershipTerms.objects.get(membership__tenant=ada)
    for each, limit in ((terms, []), (member, [row])):
        each.limit = limit
        each.save()
    assert waits(results(operator, asked))["drfh"] == expected


def test_the_history_of_a_pool_keeps_its_guarantees_as_they_were(begin, operator):
    """bob is guaranteed six cores, for good or from half an hour on."""
    _, (_, bob, _) = in_one_pool(begin, ("single", "double", "double"))
    asked = question(begin, policies=["drfh", "h-mrf"])
    member = MembershipTerms.objects.get(membership__tenant=bob)
    for dates, expected in (
        # 2, 6, 0, then 4, 2, 2, then 2, 0, 6 tasks of ada, bob and carl.
        ({}, {"ada": 3600.0, "bob": 900.0, "carl": 6300.0}),
        # 4, 2, 2, then 2, 6, 0, then 2, 0, 6.
        (
            {"from": (begin + HOUR / 2).isoformat()},
            {"ada": 2700.0, "bob": 2700.0, "carl": 5400.0},
        ),
    ):
        member.guarantee = [{"where": {}, "amount": {"cpu": "6"}, **dates}]
        member.save()
        result = results(operator, asked)
        assert waits(result) == {"drfh": expected}
        assert result["columns"][1]["error"]["code"] == "policy.no_guarantees"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"groups": [{"name": "g"}]}, (422, "backtest.groups")),
        ({"tenants": [{"name": "ada", "group": "g"}]}, (422, "group.unknown")),
        (
            {"tenants": [{"name": "ada"}], "groups": [{"name": "g", "parent": "h"}]},
            (422, "group.unknown"),
        ),
        (
            {"tenants": [{"name": "ada"}], "groups": [{"name": "g"}, {"name": "g"}]},
            (422, "group.duplicate"),
        ),
    ],
)
def test_groups_that_are_no_tree_are_refused(begin, operator, change, expected):
    in_one_pool(begin)
    assert code(operator.post("/api/v1/backtests/", question(begin, **change))) == expected


def test_a_tenant_of_a_transparent_pool_replays_the_tree_under_pseudonyms(begin):
    _, (ada, *_others) = in_one_pool(begin, ("secret-group",) * 3)
    client = factories.client("tenant", ada)
    result = results(client, question(begin, policies=["drfh"]))
    assert "secret" not in str(result)
    assert "bob" not in str(result)
    assert len(result["columns"][0]["tenants"]) == 3


def test_groups_that_lead_back_to_each_other_fail_the_backtest(begin, operator):
    in_one_pool(begin)
    loop = {
        "tenants": [{"name": name, "group": "g"} for name in ("ada", "bob", "carl")],
        "groups": [{"name": "g", "parent": "h"}, {"name": "h", "parent": "g"}],
    }
    found = finished(operator, question(begin, **loop))
    assert (found["status"], found["error"]["code"]) == ("failed", "group.cycle")
