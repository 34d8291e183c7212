"""Guarantees, own servers and loans: REST, decisions, dates, proofs, and what is refused."""

from copy import deepcopy
from datetime import timedelta

import pytest
import time_machine
from django.db import IntegrityError, connection

from allocator_service.allocation.long_term.metering import pool_meter
from allocator_service.allocation.models import Floors
from allocator_service.allocation.services import retention_apply
from allocator_service.allocation.what_if import evaluations
from allocator_service.allocation.what_if.impact import changes_impact
from allocator_service.allocation.what_if.simulations import simulation_run
from allocator_service.core.clock import utc_now
from allocator_service.core.display import instant_text
from allocator_service.core.models import Event
from allocator_service.core.outbox import events_after, events_seal
from allocator_service.core.quantities import Resource
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.pools.group_admin import GroupForm
from allocator_service.pools.models import Group, GroupTerms, RecomputeJob
from allocator_service.tenants.models import Tenant
from tests import factories

PATH = "/api/v1/pools/shared"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=["divisible", "indivisible"])
def pool(db, request):
    """Two servers of 8 GPUs of their tenants, and one of 4 of another kind."""
    pool = factories.pool("shared", resources=[Resource("gpu", "")], mode=request.param)
    for slug in ("a", "b"):
        factories.tenant(slug)
    return pool


@pytest.fixture
def members(pool, operator):
    for slug in ("a", "b"):
        assert operator.put(f"{PATH}/members/{slug}/", {"weight": 1}).status_code == 201
        server = {
            "name": f"of-{slug}", "capacity": {"gpu": 8}, "contributed_by": slug,
            "labels": {"gpu": "h100"},
        }  # fmt: skip
        assert operator.post(f"{PATH}/servers/", server).status_code == 201
        body = {"tenant": slug, "name": slug, "demand": {"gpu": 1}}
        assert operator.post(f"{PATH}/workloads/", body).status_code == 201
    other = {"name": "other", "capacity": {"gpu": 4}, "labels": {"gpu": "a10"}}
    assert operator.post(f"{PATH}/servers/", other).status_code == 201


def put(client, path, body):
    return client.put(path, body, If_Match=client.get(path)["ETag"])


def patch(client, path, body):
    return client.patch(path, body, If_Match=client.get(path)["ETag"])


def tasks(run):
    return {
        row.workload.name: (round(row.tasks, 6), row.floor, row.floor_met)
        for row in run.allocations.select_related("workload")
    }


def proven(operator, run):
    proof = operator.post(f"/api/v1/runs/{run.pk}/verify/").json()
    assert proof["valid"], proof
    return proof


def test_a_member_has_a_guarantee_on_some_servers(pool, operator, members):
    row = {"where": {"gpu": ["h100"]}, "amount": {"gpu": 14}}
    answer = put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [row]})
    assert answer.json()["guarantee"] == [{**row, "from": None, "to": None}]
    run = factories.decision(pool)
    assert tasks(run) == {"a": (14, 14, 1), "b": (6, None, None)}
    proven(operator, run)
    (first, second) = operator.get(f"/api/v1/runs/{run.pk}/allocations/").json()["results"]
    assert (first["floor"], first["floor_met"]) == (14, 1)
    assert "floor" not in second
    explanation = operator.get(f"/api/v1/runs/{run.pk}/explanation/a/").json()
    assert "14 tasks of it guaranteed" in explanation["sentence"]


def test_a_guarantee_beside_a_member_without_workloads_is_proven(pool, operator, members):
    factories.tenant("idle")
    assert operator.put(f"{PATH}/members/idle/", {"weight": 1}).status_code == 201
    put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [{"amount": {"gpu": 10}}]})
    run = factories.decision(pool)
    assert tasks(run)["a"] == (10, 10, 1)
    proven(operator, run)


def test_levels_count_what_is_above(pool, operator, members):
    row = {"amount": {"gpu": 10}}
    put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [row]})
    assert tasks(factories.decision(pool))["a"][0] == 10
    assert patch(operator, f"{PATH}/", {"count": "above"}).json()["count"] == "above"
    run = factories.decision(pool)
    assert tasks(run)["a"][0] == 15
    proven(operator, run)


def test_own_servers_of_the_pool_and_of_a_member(pool, operator, members):
    patch(operator, f"{PATH}/", {"policy": {"name": "drfh", "mode": pool.policy_mode}})
    put(operator, f"{PATH}/members/a/", {"weight": 9})
    assert tasks(factories.decision(pool))["a"][0] == 18
    assert patch(operator, f"{PATH}/", {"own_servers": True}).json()["own_servers"] is True
    run = factories.decision(pool)
    assert tasks(run) == {"a": (12, 8, 1), "b": (8, 8, 1)}
    proven(operator, run)
    answer = put(operator, f"{PATH}/members/b/", {"weight": 1, "own_servers": False})
    assert answer.json()["own_servers"] is False
    assert put(operator, f"{PATH}/members/b/", {"weight": 1}).json()["own_servers"] is False
    assert tasks(factories.decision(pool))["a"] == (18, 8, 1)


def test_a_group_decides_about_own_servers_below_it(pool, operator, members):
    body = {"slug": "ml", "name": "ML", "own_servers": True}
    assert operator.post(f"{PATH}/groups/", body).json()["own_servers"] is True
    put(operator, f"{PATH}/members/a/", {"weight": 9})
    put(operator, f"{PATH}/members/b/", {"weight": 1, "group": "ml"})
    assert tasks(factories.decision(pool)) == {"a": (12, None, None), "b": (8, 8, 1)}


def test_a_contributor_lends_a_part(pool, operator, members):
    operator.post(f"{PATH}/workloads/", {"tenant": "a", "name": "small", "demand": {"gpu": 1}})
    for path in operator.get(f"{PATH}/workloads/?tenant=a").json()["results"]:
        patch(operator, f"{PATH}/workloads/{path['id']}/", {"tasks": 1})
    answer = put(operator, f"{PATH}/members/a/", {"weight": 1, "lend": [{"amount": {"gpu": 3}}]})
    assert answer.json()["lend"][0]["amount"] == {"gpu": 3}
    run = factories.decision(pool)
    assert tasks(run)["b"][0] == 15
    assert run.allocations.get(workload__name="b").limited_by == "limit:lend"
    proven(operator, run)


def test_guarantees_that_collide_are_told(pool, operator, members):
    for slug in ("a", "b"):
        put(
            operator,
            f"{PATH}/members/{slug}/",
            {"weight": 1, "guarantee": [{"amount": {"gpu": 20}}]},
        )
    run = factories.decision(pool)
    assert tasks(run) == {"a": (10, 20, 0.5), "b": (10, 20, 0.5)}
    unmet = operator.get(f"/api/v1/runs/{run.pk}/").json()["summary"]["guarantees_unmet"]
    assert [(each["node"], each["met"], each["limited_by"]) for each in unmet] == [
        ({"tenant": slug}, 0.5, ["resource:gpu"]) for slug in ("a", "b")
    ]
    assert Event.objects.filter(kind="guarantee.unmet").count() == 1
    pool.transparent = True
    pool.save()
    member = factories.client("tenant", tenant=Tenant.objects.get(slug="a"))
    for path in (f"/api/v1/runs/{run.pk}/", f"{PATH}/decision/"):
        assert member.get(path).status_code == 200
        assert b"guarantees_unmet" not in member.get(path).content
    events_seal()
    for tenant, told in ((None, 1), ("a", 0)):
        events = events_after(None, tenant=tenant, pools=["shared"], limit=1000)
        assert [event.kind for event in events].count("guarantee.unmet") == told
    operator.post(f"{PATH}/workloads/", {"tenant": "a", "name": "c", "demand": {"gpu": 99}})
    factories.decision(pool)
    assert Event.objects.filter(kind="guarantee.unmet").count() == 1
    put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": []})
    factories.decision(pool)
    last = Event.objects.filter(kind="guarantee.unmet").latest("pk")
    assert last.payload["guarantees"] == []


def test_a_guarantee_that_cannot_be_met_is_accepted_with_a_warning(pool, operator, members):
    row = {"where": {"gpu": ["h100"]}, "amount": {"gpu": 16}}
    made = put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [row]})
    assert "warnings" not in made.json()  # 16 GPUs are there
    operator.post(f"{PATH}/groups/", {"slug": "ml", "name": "ML"})
    put(operator, f"{PATH}/members/b/", {"weight": 1, "group": "ml"})
    answer = patch(operator, f"{PATH}/groups/ml/", {"guarantee": [row]})
    warnings = answer.json()["warnings"]
    assert answer.status_code == 200
    assert [(each["code"], each["detail"]) for each in warnings] == [
        (
            "guarantee.unmet",
            f"The guarantee of {whose}, 16 gpu on gpu=h100, is met to 50\N{NO-BREAK SPACE}%: all gpu on"
            " its servers is in use.",
        )
        for whose in ("group ml", "a")
    ]
    run = factories.decision(pool)
    summary = operator.get(f"/api/v1/runs/{run.pk}/").json()["summary"]
    assert [each["guarantee"] for each in warnings] == summary["guarantees_unmet"]
    assert "warnings" not in operator.get(f"{PATH}/groups/ml/").json()
    assert "warnings" not in patch(operator, f"{PATH}/groups/ml/", {"weight": 2}).json()
    lent = put(operator, f"{PATH}/members/b/", {"weight": 1, "group": "ml", "lend": []})
    assert len(lent.json()["warnings"]) == 2
    freed = put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": []})
    assert "warnings" not in freed.json()


def test_a_warning_has_all_digits_of_the_guarantee(pool, operator, members):
    body = {"weight": 1, "guarantee": [{"amount": {"gpu": "39.9999999999"}}]}
    (warning,) = put(operator, f"{PATH}/members/a/", body).json()["warnings"]
    assert warning["detail"].startswith("The guarantee of a, 39.9999999999 gpu, is met to ")


def test_a_setting_of_the_pool_warns_as_well(pool, operator, members):
    put(operator, f"{PATH}/members/b/", {"weight": 1, "limit": [{"amount": {"gpu": 4}}]})
    answer = patch(operator, f"{PATH}/", {"own_servers": True}).json()
    if pool.policy_mode == "indivisible":
        # What a limit excludes is no floor: tasks on own servers are placed within limits.
        assert "warnings" not in answer
        return
    assert [each["detail"] for each in answer["warnings"]] == [
        "The guarantee of b, what its workloads get alone on its own servers, is met to"
        " 50\N{NO-BREAK SPACE}%: the limit of a member is reached."
    ]
    assert patch(operator, f"{PATH}/", {"count": "above"}).json()["warnings"] == answer["warnings"]


def test_a_key_of_a_group_reads_no_warning(pool, operator, members):
    operator.post(f"{PATH}/groups/", [
        {"slug": "head", "name": "Head"}, {"slug": "ml", "name": "ML", "parent": "head"},
    ])  # fmt: skip
    row = {"amount": {"gpu": 99}}
    kept = {"guarantee": [row], "own_servers": None}
    put(operator, f"{PATH}/members/a/", {"weight": 1, "group": "ml", **kept})
    head = factories.client("group", group=Group.objects.get(slug="head"))
    body = {"weight": 2, "group": "ml", **kept}
    answer = put(head, f"{PATH}/members/a/", body)
    assert answer.status_code == 200
    assert "warnings" not in answer.json()
    assert put(operator, f"{PATH}/members/a/", body).json()["warnings"]


def test_what_is_not_computed_is_left_to_the_next_decision(pool, operator, members, monkeypatch):
    monkeypatch.setitem(evaluations.MAX_ITEMS, "workloads", 1)
    row = {"amount": {"gpu": 99}}
    answer = put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [row]})
    assert answer.status_code == 200
    assert answer.json()["warnings"] == [
        {
            "code": "guarantee.not_computed",
            "detail": "Whether all guarantees can be met was not computed (evaluation.too_large). The"
            " next decision reports it in its summary, `guarantees_unmet`.",
        }
    ]
    # A pool without guarantees has nothing to compute.
    answer = put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": []})
    assert "warnings" not in answer.json()


def test_a_later_guarantee_that_cannot_be_met_is_accepted_with_a_warning(pool, operator, members):
    begins = (utc_now() + timedelta(days=40)).replace(hour=0, minute=0, second=0, microsecond=0)
    row = {"amount": {"gpu": 1000}, "from": begins.isoformat()}
    operator.post(f"{PATH}/groups/", {"slug": "ml", "name": "ML"})
    answers = [
        put(operator, f"{PATH}/members/a/", {"weight": 1, "group": "ml", "guarantee": [row]})
    ]
    put(operator, f"{PATH}/members/a/", {"weight": 1, "group": "ml", "guarantee": []})
    answers.append(patch(operator, f"{PATH}/groups/ml/", {"guarantee": [row]}))
    for answer, whose in zip(answers, ("a", "group ml"), strict=True):
        assert answer.status_code == 200
        (warning,) = answer.json()["warnings"]
        assert (warning["code"], warning["guarantee"]["met"]) == ("guarantee.unmet", 0.02)
        assert warning["detail"] == (
            f"From {instant_text(begins)} on, the guarantee of {whose}, 1,000 gpu, is met to"
            " 2\N{NO-BREAK SPACE}%: all gpu on its servers is in use."
        )
    soon = {**row, "amount": {"gpu": 4}}
    assert "warnings" not in patch(operator, f"{PATH}/groups/ml/", {"guarantee": [soon]}).json()


def test_a_guarantee_is_warned_of_at_each_instant_at_which_less_of_it_is_met(
    pool, operator, members
):
    """20 GPUs: half of 40, a fifth of 100, and a fourth of 80."""
    put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [{"amount": {"gpu": 40}}]})
    midnight = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    worse, better, same = (midnight + timedelta(days=days) for days in (10, 20, 30))
    rows = [
        {"amount": {"gpu": 60}, "from": worse.isoformat(), "to": better.isoformat()},
        {"amount": {"gpu": 40}, "from": better.isoformat(), "to": same.isoformat()},
        {"amount": {"gpu": 60}, "from": same.isoformat()},
    ]
    answer = put(operator, f"{PATH}/members/b/", {"weight": 1, "guarantee": rows})
    warnings = answer.json()["warnings"]
    assert [
        (each["guarantee"]["node"]["tenant"], each["guarantee"]["met"], each.get("from"))
        for each in warnings
    ] == [
        ("a", 0.5, None),
        ("a", 0.2, worse.isoformat().replace("+00:00", "Z")),
        ("b", 0.2, worse.isoformat().replace("+00:00", "Z")),
        ("b", 0.25, better.isoformat().replace("+00:00", "Z")),
    ]
    assert warnings[0]["detail"].startswith("The guarantee of a, 40 gpu, is met to 50")
    assert warnings[1]["detail"].startswith(
        f"From {instant_text(worse)} on, the guarantee of a, 40 gpu, is met to 20"
    )


def test_only_the_first_later_guarantees_are_computed(pool, operator, members):
    begins = [utc_now() + timedelta(days=day) for day in range(1, 6)]
    later = [
        {"amount": {"gpu": 30 * n}, "from": at.isoformat()} for n, at in enumerate(begins, start=1)
    ]
    body = {"weight": 1, "guarantee": later}
    warnings = put(operator, f"{PATH}/members/a/", body).json()["warnings"]
    codes = [each["code"] for each in warnings]
    # Each one that begins leaves less to those before it.
    instants = [begins[n] for n in (0, 1, 1, 2, 2, 2, 3, 4)]
    assert codes == ["guarantee.unmet"] * 6 + ["guarantee.not_computed"] * 2
    assert [
        instant_text(at) in each["detail"] for at, each in zip(instants, warnings, strict=True)
    ] == [True] * 8


def test_a_guarantee_of_more_tasks_than_are_divided_is_unmet(pool, operator, members):
    operator.post(f"{PATH}/groups/", {"slug": "ml", "name": "ML"})
    for slug in ("a", "b"):
        put(operator, f"{PATH}/members/{slug}/", {"weight": 1, "group": "ml"})
    row = {"amount": {"gpu": 10**10}}
    answer = patch(operator, f"{PATH}/groups/ml/", {"guarantee": [row]})
    assert answer.status_code == 200
    (warning,) = answer.json()["warnings"]
    assert (warning["code"], warning["guarantee"]["met"]) == ("guarantee.unmet", 0)
    assert warning["guarantee"]["limited_by"] == ["out_of_range"]
    assert warning["detail"].endswith(
        "leaves out a workload whose tasks are too small or too large beside it."
    )
    assert factories.decision(pool).status == "succeeded"


def test_tiny_tasks_do_not_stop_decisions_of_a_group_with_a_guarantee(pool, operator, members):
    operator.post(f"{PATH}/groups/", {"slug": "ml", "name": "ML"})
    put(operator, f"{PATH}/members/a/", {"weight": 1, "group": "ml"})
    row = {"amount": {"gpu": 8}}
    assert patch(operator, f"{PATH}/groups/ml/", {"guarantee": [row]}).status_code == 200
    assert tasks(factories.decision(pool))["a"][1:] == (8, 1)
    tiny = {"tenant": "b", "name": "tiny", "demand": {"gpu": 0.000001}, "tasks": 9_000_000}
    assert operator.post(f"{PATH}/workloads/", tiny).status_code == 201
    put(operator, f"{PATH}/members/b/", {"weight": 1, "group": "ml"})
    run = factories.decision(pool)
    assert run.status == "succeeded"
    stated = {
        each.workload.name: each.floor
        for each in run.allocations.select_related("workload")
        if each.workload.tenant.slug in ("a", "b")
    }
    unmet = [each["limited_by"] for each in run.summary.get("guarantees_unmet", [])]
    if pool.policy_mode == "indivisible":
        assert (stated["tiny"], unmet) == (None, [["out_of_range"]])
    else:
        assert unmet == []
    assert sum(floor or 0 for floor in stated.values()) == pytest.approx(8)


def test_a_guarantee_of_one_workload_may_be_of_any_number_of_tasks(pool, operator, members):
    row = {"amount": {"gpu": 10**9}}
    answer = put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [row]})
    assert [each["code"] for each in answer.json()["warnings"]] == ["guarantee.unmet"]
    assert factories.decision(pool).status == "succeeded"


def test_a_pool_decides_again_when_a_guarantee_begins_and_ends(pool, operator, members):
    now = utc_now().replace(microsecond=0)
    begins, ends = now + timedelta(hours=1), now + timedelta(hours=3)
    row = {"amount": {"gpu": 16}, "from": begins.isoformat(), "to": ends.isoformat()}
    put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [row]})
    assert tasks(factories.decision(pool))["a"] == (10, None, None)
    assert RecomputeJob.objects.get(pool=pool).run_after == begins
    with time_machine.travel(begins, tick=False):
        assert tasks(factories.decision(pool))["a"] == (16, 16, 1)
        assert RecomputeJob.objects.get(pool=pool).run_after == ends
    with time_machine.travel(ends, tick=False):
        assert tasks(factories.decision(pool))["a"] == (10, None, None)


def test_stored_floors_cannot_be_changed(pool, operator, members):
    put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [{"amount": {"gpu": 14}}]})
    run = factories.decision(pool)
    with pytest.raises(IntegrityError, match="stays as it is"):
        Floors.objects.filter(run=run).update(document=b"")
    with pytest.raises(IntegrityError, match="stays as it is"):
        run.allocations.update(floor=13)


def test_a_decision_that_lost_its_floors_is_not_valid(pool, operator, members):
    put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [{"amount": {"gpu": 14}}]})
    run = factories.decision(pool)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE run_floors DISABLE TRIGGER USER")
        cursor.execute("DELETE FROM run_floors")
        cursor.execute("ALTER TABLE run_floors ENABLE TRIGGER USER")
    assert not operator.post(f"/api/v1/runs/{run.pk}/verify/").json()["valid"]


def test_floors_are_pruned_with_their_run(pool, operator, members):
    put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [{"amount": {"gpu": 14}}]})
    factories.decision(pool)
    put(operator, f"{PATH}/members/a/", {"weight": 2})
    factories.decision(pool)
    assert Floors.objects.count() == 2
    retention_apply(now=utc_now() + timedelta(days=4000))
    assert Floors.objects.count() == 1


def test_guarantees_keep_as_other_fields_change_and_have_a_history(pool, operator, members):
    operator.post(f"{PATH}/groups/", {"slug": "ml", "name": "ML"})
    row = {"where": {}, "amount": {"gpu": 4}, "from": None, "to": None}
    assert patch(operator, f"{PATH}/groups/ml/", {"guarantee": [row]}).json()["guarantee"] == [row]
    assert patch(operator, f"{PATH}/groups/ml/", {"weight": 2}).json()["guarantee"] == [row]
    put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [row], "lend": [row]})
    kept = put(operator, f"{PATH}/members/a/", {"weight": 3}).json()
    assert (kept["guarantee"], kept["lend"]) == ([row], [row])
    history = operator.get(f"{PATH}/groups/ml/history/").json()["results"]
    assert [each["guarantee"] for each in history] == [[], [row], [row]]


@pytest.mark.parametrize("kind", ["guarantee", "lend"])
@pytest.mark.parametrize(
    ("rows", "code", "pointer"),
    [
        ([{"amount": {"tpu": 1}}], "resource.unknown", "/0/amount/tpu"),
        ([{"amount": {}}], "KIND.empty", "/0/amount"),
        ([{"amount": {"gpu": -1}}], "quantity.negative", "/0/amount/gpu"),
        (
            [{"amount": {"gpu": 1}, "from": "2027-01-02T00:00:00Z", "to": "2027-01-01T00:00:00Z"}],
            "KIND.interval",
            "/0/to",
        ),
        ({"amount": {"gpu": 1}}, "field.type", ""),
        ([{"amount": {"gpu": 1}}] * 101, "KIND.too_many", ""),
    ],
)
def test_impossible_amounts_are_refused(pool, operator, members, kind, rows, code, pointer):
    answer = put(operator, f"{PATH}/members/a/", {"weight": 1, kind: rows})
    assert answer.status_code == 422
    (error, *_) = answer.json()["errors"]
    assert error["code"] == code.replace("KIND", kind)
    assert error["pointer"] == f"/{kind}{pointer}"


def test_a_pool_has_guarantees_for_ten_selections_of_servers(pool, operator, members):
    rows = [{"where": {"rack": str(rack)}, "amount": {"gpu": 1}} for rack in range(10)]
    assert put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": rows}).status_code == 200
    same = [{"where": {"rack": ["3"]}, "amount": {"gpu": 2}}]
    assert put(operator, f"{PATH}/members/b/", {"weight": 1, "guarantee": same}).status_code == 200
    other = [{"where": {"rack": "10"}, "amount": {"gpu": 2}}]
    answer = put(operator, f"{PATH}/members/b/", {"weight": 1, "guarantee": other})
    assert (answer.status_code, answer.json()["code"]) == (422, "guarantee.too_many")
    assert operator.get(f"{PATH}/members/b/").json()["guarantee"][0]["where"] == {"rack": ["3"]}
    assert put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": other}).status_code == 200
    assert factories.decision(pool).status == "succeeded"


def test_a_limit_below_the_guarantees_under_it_is_refused(pool, operator, members):
    operator.post(f"{PATH}/groups/", {"slug": "ml", "name": "ML"})
    rows = [{"amount": {"gpu": 4}}]
    for slug in ("a", "b"):
        body = {"weight": 1, "group": "ml", "guarantee": rows}
        assert put(operator, f"{PATH}/members/{slug}/", body).status_code == 200
    answer = patch(operator, f"{PATH}/groups/ml/", {"limit": [{"amount": {"gpu": 7}}]})
    assert (answer.status_code, answer.json()["code"]) == (422, "limit.below_guarantees")
    assert answer.json()["errors"][0]["pointer"] == "/limit/0"
    assert "It must be at least gpu=8, which is guaranteed under it" in answer.json()["detail"]
    kinds = {"where": {"gpu": "a10"}, "amount": {"gpu": 1}}
    fits = [{"amount": {"gpu": 8}}, kinds]
    assert patch(operator, f"{PATH}/groups/ml/", {"limit": fits}).status_code == 200
    more = {"weight": 1, "group": "ml", "guarantee": [{"amount": {"gpu": 5}}]}
    answer = put(operator, f"{PATH}/members/a/", more)
    assert (answer.status_code, answer.json()["code"]) == (422, "limit.below_guarantees")
    assert answer.json()["errors"][0]["pointer"] == "/guarantee/0"


H100, A10, BOTH = ({"gpu": kind} for kind in ("h100", "a10", ["h100", "a10"]))


def entries(*amounts):
    return [{"where": where, "amount": {"gpu": amount}} for where, amount in amounts]


@pytest.mark.parametrize(
    ("limit", "of_group", "of_members", "needed"),
    [
        # A limit bounds the guarantees on a part of its servers, which add up if they differ.
        (({}, 4), [], [[(H100, 5)]], 5),
        (({}, 8), [], [[(H100, 5), (A10, 4)]], 9),
        (({}, 8), [], [[(H100, 5)], [(A10, 4)]], 9),
        (({}, 8), [], [[(H100, 5)], [({}, 4)]], 9),
        ((BOTH, 4), [], [[(H100, 3)], [(A10, 2)]], 5),
        ((BOTH, 4), [], [[({"gpu": "h100", "rack": "1"}, 5)]], 5),
        # Of one node, or of a node and those below it, the larger is due.
        (({}, 5), [], [[(H100, 5), ({}, 5)]], None),
        (({}, 5), [], [[(H100, 3), (A10, 2), ({}, 4)]], None),
        (({}, 5), [({}, 5)], [[(H100, 3)], [(A10, 2)]], None),
        (({}, 5), [(H100, 5)], [[({}, 4)]], None),
        (({}, 7), [(H100, 5)], [[({}, 4)], [({}, 4)]], 8),
        (({}, 6), [(H100, 3), (A10, 4)], [[({}, 4)]], 7),
        # What is guaranteed on more servers may run outside those of the limit.
        ((H100, 4), [], [[({}, 5)]], None),
        ((H100, 4), [], [[(BOTH, 5)], [(A10, 9)]], None),
        (({"rack": "1"}, 4), [], [[(H100, 5)]], None),
    ],
)
def test_a_limit_bounds_the_guarantees_on_some_of_its_servers(
    db, operator, limit, of_group, of_members, needed
):
    factories.pool("shared", resources=[Resource("gpu", "")])
    operator.post(f"{PATH}/groups/", {"slug": "ml", "name": "ML", "limit": entries(limit)})
    inner = {"slug": "sub", "name": "Sub", "parent": "ml", "guarantee": entries(*of_group)}
    answers = [operator.post(f"{PATH}/groups/", inner)]
    for number, amounts in enumerate(of_members):
        factories.tenant(f"m{number}")
        body = {"weight": 1, "group": "sub", "guarantee": entries(*amounts)}
        answers.append(operator.put(f"{PATH}/members/m{number}/", body))
    if needed is None:
        assert [answer.status_code for answer in answers] == [201] * len(answers)
        return
    answer = next(each for each in answers if each.status_code != 201)
    assert (answer.status_code, answer.json()["code"]) == (422, "limit.below_guarantees")
    assert f"at least gpu={needed}, which is guaranteed under it" in answer.json()["detail"]


def test_a_later_collision_names_its_instant_and_row(pool, operator, members):
    begins = (utc_now() + timedelta(days=40)).replace(hour=0, minute=0, second=0, microsecond=0)
    late = {**entries((H100, 5))[0], "from": begins.isoformat()}
    for slug in ("ml", "team"):
        operator.post(f"{PATH}/groups/", {"slug": slug, "name": slug})
    assert patch(operator, f"{PATH}/groups/ml/", {"limit": entries(({}, 4))}).status_code == 200
    for path, body, pointer in (
        (f"{PATH}/members/a/", {"weight": 1, "group": "ml"}, "/guarantee/1"),
        (f"{PATH}/groups/team/", {"parent": "ml"}, "/guarantee/1"),
    ):
        change = put if "members" in path else patch
        answer = change(operator, path, {**body, "guarantee": [*entries((A10, 1)), late]})
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert (error["code"], error["pointer"]) == ("limit.below_guarantees", pointer)
        assert error["detail"].startswith(
            f"From {instant_text(begins)} on, the limit of ml is gpu=4."
        )
    created = {
        "slug": "more",
        "name": "More",
        "limit": entries((BOTH, 9), ({}, 4)),
        "guarantee": [late],
    }
    answer = operator.post(f"{PATH}/groups/", [{"slug": "first", "name": "First"}, created])
    assert answer.json()["errors"][0]["pointer"] == "/1/limit/1"


def test_a_limit_that_was_too_low_before_refuses_only_what_makes_it_worse(pool, operator, members):
    """As pools of earlier releases may have one."""
    operator.post(f"{PATH}/groups/", [{"slug": "ml", "name": "ML"}, {"slug": "sub", "name": "Sub",
        "parent": "ml"}])  # fmt: skip
    body = {"weight": 1, "group": "ml", "guarantee": entries((H100, 6))}
    assert put(operator, f"{PATH}/members/a/", body).status_code == 200
    GroupTerms.objects.filter(group__slug="ml", end=None).update(limit=entries(({}, "4")))
    for change in (
        {"weight": 2, "group": "sub"},
        {"weight": 2, "group": "ml", "guarantee": entries((H100, 5))},
    ):
        assert put(operator, f"{PATH}/members/a/", change).status_code == 200
    assert patch(operator, f"{PATH}/groups/sub/", {"limit": entries((A10, 1))}).status_code == 200
    answer = put(operator, f"{PATH}/members/b/", {**body, "group": "sub"})
    assert (answer.status_code, answer.json()["code"]) == (422, "limit.below_guarantees")


def test_a_move_below_a_limit_that_is_less_than_the_guarantee_is_refused(pool, operator, members):
    """A member, and a group with it, that state no amounts."""
    for slug in ("ml", "team"):
        assert operator.post(f"{PATH}/groups/", {"slug": slug, "name": slug}).status_code == 201
    patch(operator, f"{PATH}/groups/ml/", {"limit": [{"amount": {"gpu": 3}}]})
    guaranteed = {"weight": 1, "guarantee": [{"amount": {"gpu": 4}}]}
    assert put(operator, f"{PATH}/members/a/", guaranteed).status_code == 200
    answer = put(operator, f"{PATH}/members/a/", {"weight": 1, "group": "ml"})
    assert (answer.status_code, answer.json()["code"]) == (422, "limit.below_guarantees")
    assert answer.json()["errors"][0]["pointer"] == "/group"
    assert put(operator, f"{PATH}/members/a/", {"weight": 1, "group": "team"}).status_code == 200
    answer = patch(operator, f"{PATH}/groups/team/", {"parent": "ml"})
    assert (answer.status_code, answer.json()["code"]) == (422, "limit.below_guarantees")
    assert answer.json()["errors"][0]["pointer"] == "/parent"
    assert operator.get(f"{PATH}/groups/team/").json()["parent"] is None


def test_the_refusal_points_at_what_the_request_changes(pool, operator, members):
    for slug in ("ml", "team"):
        assert operator.post(f"{PATH}/groups/", {"slug": slug, "name": slug}).status_code == 201
    own = {"limit": entries(({}, 9), (H100, 6)), "guarantee": entries((H100, 5))}
    assert patch(operator, f"{PATH}/groups/team/", own).status_code == 200
    assert patch(operator, f"{PATH}/groups/ml/", {"limit": entries(({}, 4))}).status_code == 200
    kept = {"weight": 1, "guarantee": entries((H100, 5))}
    assert put(operator, f"{PATH}/members/a/", kept).status_code == 200
    team, member = f"{PATH}/groups/team/", f"{PATH}/members/a/"
    for change, path, body, pointer in (
        (patch, team, {"parent": "ml"}, "/parent"),
        (patch, team, {"parent": "ml", "weight": 2}, "/parent"),
        (patch, team, {"parent": "ml", "guarantee": entries((H100, 6))}, "/guarantee/0"),
        (patch, team, {"guarantee": entries((H100, 7))}, "/guarantee/0"),
        (patch, team, {"guarantee": entries((A10, 1), (H100, 7))}, "/guarantee/1"),
        (patch, team, {"limit": entries((H100, 6), ({}, 3))}, "/limit/1"),
        (patch, team, {"limit": entries((H100, 3)), "guarantee": entries((H100, 4))}, "/limit/0"),
        # What a PUT states again is not what it changes.
        (put, member, {**kept, "group": "ml"}, "/group"),
        (put, member, {**kept, "limit": entries(({}, 2))}, "/limit/0"),
    ):
        answer = change(operator, path, body)
        assert answer.status_code == 422, body
        (error,) = answer.json()["errors"]
        assert (error["code"], error["pointer"]) == ("limit.below_guarantees", pointer), body
    body = {**kept, "limit": entries(({}, 5), (A10, 1))}
    assert put(operator, member, body).status_code == 200
    more = {**body, "limit": [*body["limit"], *entries((BOTH, 7))]}
    answer = put(operator, member, {**more, "guarantee": entries((H100, 6))})
    assert answer.json()["errors"][0]["pointer"] == "/guarantee/0"


def test_guarantees_count_against_a_limit_while_both_hold(pool, operator, members):
    later = utc_now() + timedelta(days=1)
    limit = {"amount": {"gpu": 2}, "to": later.isoformat()}
    guarantee = {"amount": {"gpu": 4}, "from": later.isoformat()}
    body = {"weight": 1, "limit": [limit], "guarantee": [guarantee]}
    assert put(operator, f"{PATH}/members/a/", body).status_code == 200
    soon = {**guarantee, "from": (later - timedelta(hours=1)).isoformat()}
    answer = put(operator, f"{PATH}/members/a/", {**body, "guarantee": [soon]})
    assert (answer.status_code, answer.json()["code"]) == (422, "limit.below_guarantees")


@pytest.mark.parametrize(
    ("kinds", "nouns"),
    [
        (["lend"], "loans"),
        (["guarantee"], "guarantees"),
        (["guarantee", "lend"], "guarantees and loans"),
        (["limit", "guarantee", "lend"], "limits, guarantees and loans"),
    ],
)
def test_a_policy_that_does_not_place_names_the_amounts_of_some_servers(
    pool, operator, members, kinds, nouns
):
    patch(operator, f"{PATH}/", {"own_servers": True})
    row = {"where": {"gpu": ["h100"]}, "amount": {"gpu": 1}}
    body = {"weight": 1, "own_servers": True, **{kind: [row] for kind in kinds}}
    assert put(operator, f"{PATH}/members/a/", body).status_code == 200
    answer = patch(operator, f"{PATH}/", {"policy": {"name": "drf"}})
    assert (answer.status_code, answer.json()["code"]) == (422, "policy.no_placement")
    assert f"server, and {nouns} of the pool are for some servers" in answer.json()["detail"]
    patch(operator, f"{PATH}/", {"own_servers": False})
    put(operator, f"{PATH}/members/a/", {"weight": 1, "own_servers": None})
    answer = patch(operator, f"{PATH}/", {"policy": {"name": "h-mrf"}})
    assert answer.status_code == 422
    assert f"The policy h-mrf does not keep {nouns}; these do" in answer.json()["detail"]


def test_policies_without_guarantees_refuse_them(pool, operator, members):
    patch(operator, f"{PATH}/", {"own_servers": True})
    answer = patch(operator, f"{PATH}/", {"policy": {"name": "h-mrf"}})
    assert (answer.status_code, answer.json()["code"]) == (422, "policy.no_guarantees")
    patch(operator, f"{PATH}/", {"own_servers": False})
    put(operator, f"{PATH}/members/a/", {"weight": 1, "own_servers": True})
    answer = patch(operator, f"{PATH}/", {"policy": {"name": "h-mrf"}})
    assert (answer.status_code, answer.json()["code"]) == (422, "policy.no_guarantees")
    put(operator, f"{PATH}/members/a/", {"weight": 1, "own_servers": None})
    assert patch(operator, f"{PATH}/", {"policy": {"name": "h-mrf"}}).status_code == 200
    for body in ({"guarantee": [{"amount": {"gpu": 1}}]}, {"own_servers": True}):
        answer = put(operator, f"{PATH}/members/a/", {"weight": 1, **body})
        assert (answer.status_code, answer.json()["code"]) == (422, "policy.no_guarantees")


def test_one_pool_lends_no_servers(pool, operator, members):
    put(operator, f"{PATH}/members/a/", {"weight": 1, "lend": [{"amount": {"gpu": 3}}]})
    answer = patch(operator, f"{PATH}/", {"policy": {"name": "drf"}})
    assert (answer.status_code, answer.json()["code"]) == (422, "policy.no_placement")


def test_a_group_cannot_guarantee_itself_or_others_anything(pool, operator, members):
    made = operator.post(f"{PATH}/groups/", {"slug": "ml", "name": "ML"})
    assert made.status_code == 201
    put(operator, f"{PATH}/members/a/", {"weight": 1, "group": "ml"})
    manager = factories.client("group", pool=pool, group=Group.objects.get(slug="ml"))
    path = f"{PATH}/members/a/"
    body = {"weight": 1, "group": "ml"}
    assert put(manager, path, {**body, "weight": 2}).status_code == 200
    for more in (
        {"guarantee": [{"amount": {"gpu": 1}}]},
        {"lend": [{"amount": {"gpu": 1}}]},
        {"own_servers": True},
    ):
        answer = put(manager, path, {**body, **more})
        assert (answer.status_code, answer.json()["code"]) == (403, "auth.group")


def test_a_what_if_of_guarantees(pool, operator, members):
    changes = {"members": [{"tenant": "a", "guarantee": [{"amount": {"gpu": 16}}]}]}
    assert simulated(operator, changes) == {"a": 16, "b": 4}
    put(operator, f"{PATH}/members/a/", {"weight": 9, "guarantee": [{"amount": {"gpu": 10}}]})
    assert simulated(operator, {}) == {"a": 18, "b": 2}
    assert simulated(operator, {"own_servers": True}) == {"a": 12, "b": 8}
    assert simulated(operator, {"count": "above"}) == {"a": 19, "b": 1}


@pytest.mark.parametrize(
    ("node", "kind"), [("groups", "limit"), ("tenants", "guarantee"), ("tenants", "lend")]
)
@pytest.mark.parametrize("name", ["from", "to"])
def test_an_evaluation_and_a_what_if_have_no_dates(pool, operator, members, node, kind, name):
    row = {"amount": {"gpu": 1}, name: "2027-01-01T00:00:00Z"}
    document = {
        "resources": ["gpu"], "servers": [{"capacity": {"gpu": 8}}], "tenants": [{"name": "a"}],
        "groups": [{"name": "g"}], "policy": {"name": "drfh"},
        "workloads": [{"tenant": "a", "name": "w", "demand": {"gpu": 1}}],
    }  # fmt: skip
    document[node][0][kind] = [row]
    of_evaluation = operator.post("/api/v1/evaluations/", document)
    operator.post(f"{PATH}/groups/", {"slug": "g", "name": "G"})
    part, named = ("groups", "group") if node == "groups" else ("members", "tenant")
    changes = {part: [{named: "g" if node == "groups" else "a", kind: [row]}]}
    of_what_if = operator.post(f"{PATH}/simulations/", changes)
    for answer, where in ((of_evaluation, node), (of_what_if, part)):
        assert answer.status_code == 422, answer.content
        (error,) = answer.json()["errors"]
        assert (error["code"], error["pointer"]) == (
            f"{kind}.interval",
            f"/{where}/0/{kind}/0/{name}",
        )
        assert "is of one instant" in error["detail"]
    row["colour"] = "red"
    answer = operator.post("/api/v1/evaluations/", document)
    assert (answer.status_code, answer.json()["code"]) == (400, "field.unknown")


LOW = {
    "resources": ["cpu", "gpu"],
    "servers": [{"name": "s", "capacity": {"cpu": 64, "gpu": 8}, "labels": {"gpu": "h100"}}],
    "groups": [{"name": "top"}, {"name": "ml", "parent": "top"}],
    "tenants": [
        {"name": "a", "group": "ml", "guarantee": [{"amount": {"gpu": 4}}]},
        {"name": "b", "group": "ml", "guarantee": [{"amount": {"gpu": "100m"}}]},
    ],
    "workloads": [{"tenant": name, "name": "w", "demand": {"gpu": 1}} for name in "ab"],
    "policy": {"name": "drfh"},
}


@pytest.mark.parametrize(
    ("part", "position", "limits", "pointer"),
    [
        ("groups", 1, [{"amount": {"gpu": 4}}], "/groups/1/limit/0"),
        (
            "groups",
            0,
            [{"amount": {"cpu": 9}}, {"amount": {"gpu": 4, "cpu": 0}}],
            "/groups/0/limit/1",
        ),
        ("groups", 0, [{"amount": {"gpu": 0, "cpu": 0}}], "/groups/0/limit/0"),
        ("tenants", 0, [{"amount": {"gpu": 3.9}}], "/tenants/0/limit/0"),
        ("groups", 1, [{"amount": {"gpu": 4.1}}], None),
        ("groups", 1, [{"where": {"gpu": "h100"}, "amount": {"gpu": 0}}], None),
        # As the input of a run has an exhausted budget.
        ("groups", 1, [{"amount": {"gpu": 0}}], None),
        ("tenants", 0, [{"where": {}, "amount": {"gpu": 0}}], None),
    ],
)
def test_an_evaluation_refuses_a_limit_below_guarantees(operator, part, position, limits, pointer):
    document = deepcopy(LOW)
    document[part][position]["limit"] = limits
    compared = {"input": document, "policies": ["drfh"]}
    for path, body, under in (
        ("/api/v1/evaluations/", document, ""),
        ("/api/v1/comparisons/", compared, "/input"),
    ):
        answer = operator.post(path, body)
        if pointer is None:
            assert answer.status_code == 200, answer.content
            continue
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert (error["code"], error["pointer"]) == ("limit.below_guarantees", f"{under}{pointer}")
        assert "It must be at least gpu=4" in error["detail"]
    document["workloads"][0]["demand"] = {"gpu": -1}
    answer = operator.post("/api/v1/evaluations/", document)
    assert answer.json()["code"] == "quantity.negative"


def test_the_input_of_a_run_with_an_exhausted_budget_is_evaluated_and_compared(
    pool, operator, members
):
    """Its limit of 0 is less than the guarantee."""
    put(operator, f"{PATH}/members/a/", {"weight": 1, "guarantee": [{"amount": {"gpu": 4}}]})
    budget = {"tenant": "a", "resource": "gpu", "amount": "0.0001", "then": "stop"}
    assert operator.post(f"{PATH}/budgets/", budget).status_code == 201
    factories.decision(pool)
    with time_machine.travel(utc_now() + timedelta(hours=2)):
        pool_meter(pool_id=pool.pk, now=utc_now())
        entries_seal_all(now=utc_now())
        run = factories.decision(pool)
        document = operator.get(f"/api/v1/runs/{run.pk}/input/").json()
        assert document["tenants"][0]["limit"] == [{"where": {}, "amount": {"gpu": 0}}]
        answer = operator.post("/api/v1/evaluations/", document)
        assert answer.status_code == 200, answer.content
        assert answer.json()["summary"]["guarantees_unmet"][0]["met"] == 0
        for compared in (document, {"run": str(run.pk)}):
            body = {"input": compared, "policies": ["drfh"]}
            assert operator.post("/api/v1/comparisons/", body).status_code == 200
        assert operator.post(f"/api/v1/runs/{run.pk}/verify/").json()["valid"]


def test_a_what_if_names_the_guarantees_that_it_would_not_meet(pool, operator, members):
    changes = {"members": [{"tenant": "a", "guarantee": [{"amount": {"gpu": 1000}}]}]}
    made = operator.post(f"{PATH}/simulations/", changes)
    simulation_run(simulation_id=made.json()["id"], clock=utc_now)
    summary = operator.get(made["Location"]).json()["result"]["summary"]
    assert "guarantees_unmet" not in summary["before"]
    body = {"weight": 1, "guarantee": [{"amount": {"gpu": 1000}}]}
    assert put(operator, f"{PATH}/members/a/", body).status_code == 200
    decided = operator.get(f"/api/v1/runs/{factories.decision(pool).pk}/").json()["summary"]
    (unmet,) = summary["after"]["guarantees_unmet"]
    assert unmet["met"] == 0.02
    assert summary["after"]["guarantees_unmet"] == decided["guarantees_unmet"]
    # It names members and groups, which the simulation of a tenant does not.
    tenant = factories.client("tenant", Tenant.objects.get(slug="b"))
    made = tenant.post(f"{PATH}/simulations/", {})
    simulation_run(simulation_id=made.json()["id"], clock=utc_now)
    assert tenant.get(made["Location"]).json()["result"]["summary"] is None


def test_a_what_if_refuses_the_limits_that_the_change_refuses(pool, operator, members):
    operator.post(f"{PATH}/groups/", {"slug": "ml", "name": "ML", "limit": entries(({}, 4))})
    guarantee = {"guarantee": entries((H100, 5))}
    put(operator, f"{PATH}/members/b/", {"weight": 1, **guarantee})
    begins = (utc_now() + timedelta(days=40)).replace(hour=0, minute=0, second=0, microsecond=0)
    late = {**entries(({}, 2))[0], "from": begins.isoformat()}
    put(operator, f"{PATH}/members/a/", {"weight": 1, "limit": [late]})
    for changes, pointer, start in (
        (
            {"members": [{"tenant": "a", "group": "ml", **guarantee}]},
            "/members/0/guarantee/0",
            "The",
        ),
        ({"members": [{"tenant": "b", "group": "ml"}]}, "/members/0/group", "The"),
        ({"members": [{"tenant": "a", **guarantee}]}, "/members/0/guarantee/0", "From"),
        (
            {
                "groups": [{"group": "ml", "limit": entries(({}, 9), (BOTH, 3))}],
                "members": [{"tenant": "b", "group": "ml"}],
            },
            "/groups/0/limit/1",
            "The",
        ),
    ):
        made = operator.post(f"{PATH}/simulations/", changes)
        simulation_run(simulation_id=made.json()["id"], clock=utc_now)
        found = operator.get(made["Location"]).json()
        assert found["status"] == "failed", changes
        (error,) = found["error"]["errors"]
        assert (error["code"], error["pointer"]) == ("limit.below_guarantees", pointer)
        assert error["detail"].startswith(f"{start} ")
        assert changes_impact(pool, changes, "", now=utc_now()).unknown == error["detail"]
    moved = {"members": [{"tenant": "b", "group": "ml", "guarantee": entries((H100, 4))}]}
    assert simulated(operator, moved)["b"] == 4


def simulated(operator, changes):
    made = operator.post(f"{PATH}/simulations/", changes)
    assert made.status_code == 202, made.content
    simulation_run(simulation_id=made.json()["id"], clock=utc_now)
    rows = operator.get(made["Location"]).json()["result"]["workloads"]
    return {row["workload"]: round(row["after"]["tasks"], 6) for row in rows}


def test_the_admin_changes_guarantees_by_lines(pool, operator, members):
    operator.post(f"{PATH}/groups/", {"slug": "ml", "name": "ML"})
    group = Group.objects.get(slug="ml")
    data = {
        "name": "ML", "parent": "", "weight": "1", "tier": "0", "guarantee": "gpu=4; gpu=h100",
        "limit": "gpu=8", "own_servers": "yes",
    }  # fmt: skip
    form = GroupForm(data, instance=group)
    form.fields.pop("pool", None), form.fields.pop("slug", None)
    assert form.is_valid(), form.errors
    terms = group.terms.get(end=None)
    assert terms.guarantee == [{"where": {"gpu": ["h100"]}, "amount": {"gpu": "4"}}]
    assert terms.own_servers == "yes"
    again = GroupForm(instance=group)
    assert again.initial["guarantee"] == "gpu=4; gpu=h100"


def test_tenants_do_not_set_guarantees(pool, operator, members):
    tenant = factories.client("tenant", Tenant.objects.get(slug="a"))
    body = {"weight": 1, "guarantee": [{"amount": {"gpu": 4}}]}
    assert put(tenant, f"{PATH}/members/a/", body).status_code == 403
