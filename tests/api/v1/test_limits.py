"""Limits of groups, members and workloads: REST, decisions, dates, and what is refused."""

from datetime import timedelta

import pytest
import time_machine
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service.allocation.what_if.simulations import simulation_run
from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import Resource
from allocator_service.pools.group_admin import GroupForm
from allocator_service.pools.limit_forms import LimitsField, limits_text
from allocator_service.pools.limits import NOUNS, next_change_of_limits
from allocator_service.pools.member_services import members_admit
from allocator_service.pools.models import Group, GroupTerms, RecomputeJob
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests import factories

PATH = "/api/v1/pools/shared"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pool(db):
    """One server of 64 CPUs and 8 GPUs, and one without GPUs."""
    pool = factories.pool("shared", resources=[Resource("cpu", "core"), Resource("gpu", "")])
    factories.server(pool, "gpu-node", 64, 8, None, labels={"gpu": "a100"})
    factories.server(pool, "cpu-node", 96, 0, None)
    return pool


def tasks(run):
    return {
        row.workload.name: (round(row.tasks, 6), row.limited_by)
        for row in run.allocations.select_related("workload")
    }


def demand(client, tenant, name, cpu, gpu):
    body = {"tenant": tenant, "name": name, "demand": {"cpu": cpu, "gpu": gpu}}
    return client.post(f"{PATH}/workloads/", body)


@pytest.fixture
def department(pool, operator):
    """A group of two members beside a third one."""
    for slug in ("vision", "speech", "bio"):
        factories.tenant(slug)
    assert operator.post(f"{PATH}/groups/", {"slug": "ml", "name": "ML"}).status_code == 201
    for slug, group in (("vision", "ml"), ("speech", "ml"), ("bio", None)):
        body = {"weight": 1, "group": group}
        assert operator.put(f"{PATH}/members/{slug}/", body).status_code == 201
    demand(operator, "vision", "v", 4, 1)
    demand(operator, "speech", "s", 8, 1)
    demand(operator, "bio", "b", 2, 0)


def patch(client, path, body):
    return client.patch(path, body, If_Match=client.get(path)["ETag"])


def test_a_group_has_a_limit(pool, operator, department):
    answer = patch(operator, f"{PATH}/groups/ml/", {"limit": [{"amount": {"gpu": 4}}]})
    assert answer.status_code == 200, answer.content
    assert answer.json()["limit"] == [{"where": {}, "amount": {"gpu": 4}, "from": None, "to": None}]
    assert tasks(factories.decision(pool)) == {
        "v": (2, "limit:group:ml"),
        "s": (2, "limit:group:ml"),
        "b": (68, "resource:cpu"),
    }


def test_other_changes_of_a_node_keep_its_limits(pool, operator, department):
    row = {"where": {"gpu": ["a100"]}, "amount": {"gpu": 1}, "from": None, "to": None}
    for path in (f"{PATH}/groups/ml/", f"{PATH}/workloads/{workload(operator, 'v')}/"):
        assert patch(operator, path, {"limit": [row]}).status_code == 200
        other = {"weight": 2} if "groups" in path else {"priority": 1}
        assert patch(operator, path, other).json()["limit"] == [row]
    member = f"{PATH}/members/bio/"
    with_limit = put(operator, member, {"weight": 1, "limit": [row]})
    assert with_limit.json()["limit"] == [row]
    assert put(operator, member, {"weight": 3}).json()["limit"] == [row]
    assert put(operator, member, {"weight": 3, "limit": []}).json()["limit"] == []


def put(client, path, body):
    return client.put(path, body, If_Match=client.get(path)["ETag"])


def workload(client, name):
    (found,) = client.get(f"{PATH}/workloads/?name={name}").json()["results"]
    return found["id"]


def test_the_history_of_a_group_has_its_limits(pool, operator, department):
    patch(operator, f"{PATH}/groups/ml/", {"limit": [{"amount": {"gpu": 4}}]})
    patch(operator, f"{PATH}/groups/ml/", {"limit": [{"amount": {"gpu": "2.5"}}]})
    rows = operator.get(f"{PATH}/groups/ml/history/").json()["results"]
    assert [[row["amount"] for row in each["limit"]] for each in rows] == [
        [],
        [{"gpu": 4}],
        [{"gpu": 2.5}],
    ]


def test_a_pool_decides_again_when_a_limit_begins_and_ends(pool, operator, department):
    now = utc_now().replace(microsecond=0)
    begins, ends = now + timedelta(hours=1), now + timedelta(hours=3)
    row = {"amount": {"gpu": 4}, "from": begins.isoformat(), "to": ends.isoformat()}
    assert patch(operator, f"{PATH}/groups/ml/", {"limit": [row]}).status_code == 200
    assert tasks(factories.decision(pool))["v"][1] != "limit:group:ml"
    assert RecomputeJob.objects.get(pool=pool).run_after == begins
    with time_machine.travel(begins, tick=False):
        assert tasks(factories.decision(pool))["v"] == (2, "limit:group:ml")
        assert RecomputeJob.objects.get(pool=pool).run_after == ends
    with time_machine.travel(ends, tick=False):
        assert tasks(factories.decision(pool))["v"][1] != "limit:group:ml"
        job = RecomputeJob.objects.get(pool=pool)
        assert job.wanted == job.settled


def test_a_limit_is_part_of_the_input_only_while_it_holds(pool, operator, department):
    flat = factories.decision(pool)
    assert "limit" not in str(operator.get(f"/api/v1/runs/{flat.pk}/input/").json())
    patch(operator, f"{PATH}/groups/ml/", {"limit": [{"amount": {"gpu": 4}}]})
    limited = factories.decision(pool)
    document = operator.get(f"/api/v1/runs/{limited.pk}/input/").json()
    assert document["groups"][0]["limit"] == [{"where": {}, "amount": {"gpu": 4}}]
    proof = operator.post(f"/api/v1/runs/{limited.pk}/verify/")
    assert proof.json()["valid"], proof.content


@pytest.mark.parametrize(
    ("limit", "code", "pointer"),
    [
        ([{"amount": {"tpu": 1}}], "resource.unknown", "/limit/0/amount/tpu"),
        ([{"amount": {}}], "limit.empty", "/limit/0/amount"),
        ([{"amount": {"gpu": -1}}], "quantity.negative", "/limit/0/amount/gpu"),
        ([{"amount": {"gpu": "NaN"}}], "quantity.syntax", "/limit/0/amount/gpu"),
        ([{"where": {"gpu": []}, "amount": {"gpu": 1}}], "selector.count", "/limit/0/where/gpu"),
        (
            [{"amount": {"gpu": 1}, "from": "2027-01-02T00:00:00Z", "to": "2027-01-01T00:00:00Z"}],
            "limit.interval",
            "/limit/0/to",
        ),
        (
            [{"amount": {"gpu": 1}, "from": "2027-13-01T00:00:00Z"}],
            "timestamp.syntax",
            "/limit/0/from",
        ),
        ([{"amount": {"gpu": 1}, "until": 1}], "field.unknown", "/limit/0/until"),
        ({"amount": {"gpu": 1}}, "field.type", "/limit"),
        ([{"amount": {"gpu": 1}}] * 101, "limit.too_many", "/limit"),
    ],
)
def test_impossible_limits_are_refused(pool, operator, department, limit, code, pointer):
    for path in (f"{PATH}/groups/ml/", f"{PATH}/workloads/{workload(operator, 'v')}/"):
        answer = patch(operator, path, {"limit": limit})
        assert answer.status_code == (400 if code == "field.unknown" else 422)
        (error, *_) = answer.json()["errors"]
        assert (error["code"], error["pointer"]) == (code, pointer)
    answer = put(operator, f"{PATH}/members/bio/", {"weight": 1, "limit": limit})
    assert answer.json()["errors"][0]["code"] == code


@pytest.mark.parametrize(
    "dates",
    [
        {"to": "9999-12-31T23:59:59Z"},
        {"to": "2200-01-01T00:00:01Z"},
        {"from": "1999-12-31T23:59:59Z"},
        {"from": "0001-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z"},
    ],
)
def test_dates_out_of_the_range_of_budgets_are_refused_of_every_amount(
    pool, operator, department, dates
):
    row = {"amount": {"gpu": 1}, **dates}
    field = next(iter(dates))
    answers = {
        kind: put(operator, f"{PATH}/members/bio/", {"weight": 1, kind: [row]})
        for kind in ("lend", "guarantee", "limit")
    }
    for kind in ("guarantee", "limit"):
        body = [{"slug": "new", "name": "New", kind: [row]}]
        for answer, at in (
            (answers[kind], ""),
            (patch(operator, f"{PATH}/groups/ml/", {kind: [row]}), ""),
            (operator.post(f"{PATH}/groups/", body), "/0"),
        ):
            assert_out_of_range(answer, kind, f"{at}/{kind}/0/{field}")
    assert_out_of_range(answers["lend"], "lend", f"/lend/0/{field}")
    changed = patch(operator, f"{PATH}/workloads/{workload(operator, 'v')}/", {"limit": [row]})
    assert_out_of_range(changed, "limit", f"/limit/0/{field}")
    new = {"tenant": "bio", "name": "n", "demand": {"gpu": 1}, "limit": [row]}
    assert_out_of_range(operator.post(f"{PATH}/workloads/", new), "limit", f"/limit/0/{field}")


def assert_out_of_range(answer, kind, pointer):
    assert answer.status_code == 422, answer.content
    (error,) = answer.json()["errors"]
    assert (error["code"], error["pointer"]) == (f"{kind}.interval", pointer)
    assert error["detail"] == f"`{pointer.split('/')[-1]}` must be between 2000 and 2200."


def test_the_ends_of_the_range_are_dates(pool, operator, department):
    ends = {"from": "2000-01-01T00:00:00Z", "to": "2200-01-01T00:00:00Z"}
    row = {"where": {}, "amount": {"gpu": 1}, **ends}
    assert patch(operator, f"{PATH}/groups/ml/", {"limit": [row]}).json()["limit"] == [row]


def test_dates_out_of_range_that_are_stored_leave_the_rest_of_the_list_free(
    pool, operator, department
):
    """An earlier release accepted them."""
    forever = {"where": {}, "amount": {"gpu": "1"}, "to": "9999-12-31T23:59:59+00:00"}
    GroupTerms.objects.filter(group__slug="ml", end=None).update(limit=[forever, forever])
    (first, second) = operator.get(f"{PATH}/groups/ml/").json()["limit"]
    assert first["to"] == "9999-12-31T23:59:59Z"
    added = [first, second, {"amount": {"gpu": 3}}]
    assert patch(operator, f"{PATH}/groups/ml/", {"limit": added}).status_code == 200
    assert patch(operator, f"{PATH}/groups/ml/", {"limit": added[1:]}).status_code == 200
    other = {**first, "to": "9999-12-31T23:59:58Z"}
    answer = patch(operator, f"{PATH}/groups/ml/", {"limit": [first, other]})
    assert_out_of_range(answer, "limit", "/limit/1/to")


def test_policies_that_keep_no_limits_and_pools_with_limits_refuse_each_other(
    pool, operator, department
):
    patch(operator, f"{PATH}/groups/ml/", {"limit": [{"amount": {"gpu": 4}}]})
    answer = patch(operator, f"{PATH}/", {"policy": {"name": "h-mrf"}})
    assert (answer.status_code, answer.json()["code"]) == (422, "policy.no_limits")
    patch(operator, f"{PATH}/groups/ml/", {"limit": []})
    assert patch(operator, f"{PATH}/", {"policy": {"name": "h-mrf"}}).status_code == 200
    answer = patch(operator, f"{PATH}/groups/ml/", {"limit": [{"amount": {"gpu": 4}}]})
    assert (answer.status_code, answer.json()["code"]) == (422, "policy.no_limits")


def test_a_policy_that_sees_one_pool_takes_no_limits_of_some_servers(pool, operator, department):
    row = {"where": {"gpu": "a100"}, "amount": {"gpu": 4}}
    patch(operator, f"{PATH}/groups/ml/", {"limit": [row]})
    answer = patch(operator, f"{PATH}/", {"policy": {"name": "drf"}})
    assert (answer.status_code, answer.json()["code"]) == (422, "policy.no_placement")
    patch(operator, f"{PATH}/groups/ml/", {"limit": []})
    assert patch(operator, f"{PATH}/", {"policy": {"name": "drf"}}).status_code == 200
    answer = patch(operator, f"{PATH}/groups/ml/", {"limit": [row]})
    assert (answer.status_code, answer.json()["code"]) == (422, "policy.no_placement")


def test_a_tenant_limits_its_workloads_alone(pool, operator, department):
    tenant = factories.client("tenant", Tenant.objects.get(slug="vision"))
    path = f"{PATH}/workloads/{workload(operator, 'v')}/"
    assert patch(tenant, path, {"limit": [{"amount": {"gpu": 1}}]}).status_code == 200
    assert tasks(factories.decision(pool))["v"] == (1, "limit:workload")
    assert put(tenant, f"{PATH}/members/vision/", {"weight": 1, "limit": []}).status_code == 403


def test_a_tenant_cannot_take_up_the_limits_of_the_pool(pool, operator, department):
    tenant = factories.client("tenant", Tenant.objects.get(slug="vision"))
    rows = [{"amount": {"gpu": number}} for number in range(1, 51)]
    path = f"{PATH}/workloads/{workload(operator, 'v')}/"
    assert patch(tenant, path, {"limit": rows}).status_code == 200
    assert patch(tenant, path, {"limit": rows[1:] + rows[:1]}).status_code == 200
    more = {"name": "w", "demand": {"gpu": 1}, "limit": rows[:1]}
    answer = tenant.post(f"{PATH}/workloads/", more)
    assert (answer.status_code, answer.json()["code"]) == (422, "limit.too_many")
    assert answer.json()["errors"][0]["pointer"] == "/limit"


def test_a_pool_has_at_most_a_thousand_limits(pool, operator, department):
    hundred = [{"amount": {"gpu": number}} for number in range(100)]
    groups = [{"slug": f"g{n}", "name": "G", "limit": hundred} for n in range(10)]
    assert operator.post(f"{PATH}/groups/", groups).status_code == 201
    assert patch(operator, f"{PATH}/groups/g0/", {"limit": hundred}).status_code == 200
    answer = patch(operator, f"{PATH}/groups/ml/", {"limit": hundred[:1]})
    assert (answer.status_code, answer.json()["code"]) == (422, "limit.too_many")


def test_an_explanation_tries_a_higher_limit(pool, operator, department):
    patch(operator, f"{PATH}/groups/ml/", {"limit": [{"amount": {"gpu": 4}}]})
    run = factories.decision(pool)
    document = operator.get(f"/api/v1/runs/{run.pk}/explanation/vision/").json()
    assert "stopped at the limit of group ml" in document["sentence"]
    (remedy,) = document["counterfactuals"]
    assert remedy["changes"]["groups"][0]["limit"] == [{"where": {}, "amount": {"gpu": 9}}]
    assert remedy["tasks_after"] > remedy["tasks_before"]


def test_the_words_of_a_higher_limit_have_all_of_its_digits(pool, operator, department):
    patch(operator, f"{PATH}/groups/ml/", {"limit": [{"amount": {"gpu": "3.99999999995"}}]})
    run = factories.decision(pool)
    document = operator.get(f"/api/v1/runs/{run.pk}/explanation/vision/").json()
    (remedy,) = document["counterfactuals"]
    amount = {"gpu": 8.9999999999}
    assert remedy["changes"]["groups"][0]["limit"] == [{"where": {}, "amount": amount}]
    assert remedy["words"] == "a limit of 8.9999999999 gpu for group ml"


def test_the_words_of_higher_limits_have_their_servers(pool, operator, department):
    where = {"gpu": ["h100", "a100"]}
    limits = [{"amount": {"gpu": 4}}, {"amount": {"gpu": 4}, "where": where}]
    patch(operator, f"{PATH}/groups/ml/", {"limit": limits})
    run = factories.decision(pool)
    document = operator.get(f"/api/v1/runs/{run.pk}/explanation/vision/").json()
    words = {each["words"] for each in document["counterfactuals"]}
    assert "a limit of 9 gpu and 9 gpu on gpu=h100 or a100 for group ml" in words


def test_a_simulation_tries_a_limit(pool, operator, department):
    factories.decision(pool)
    changes = {"groups": [{"group": "ml", "limit": [{"amount": {"gpu": 4}}]}]}
    made = operator.post(f"{PATH}/simulations/", changes)
    assert made.status_code == 202, made.content
    simulation_run(simulation_id=made.json()["id"], clock=utc_now)
    after = {
        row["workload"]: row["after"]["limited_by"]
        for row in operator.get(made["Location"]).json()["result"]["workloads"]
    }
    assert after == {"v": "limit:group:ml", "s": "limit:group:ml", "b": "resource:cpu"}


def test_the_admin_sets_limits_as_lines(pool, operator, department):
    group = Group.objects.get(slug="ml")
    form = GroupForm(
        {
            "name": "ML",
            "weight": "1",
            "tier": "0",
            "limit": "gpu=4; gpu=a100,h100;; 2027-01-01T00:00Z",
        },
        instance=group,
    )
    form.fields.pop("pool", None), form.fields.pop("slug", None)
    assert form.is_valid(), form.errors
    (row,) = operator.get(f"{PATH}/groups/ml/").json()["limit"]
    assert row == {
        "where": {"gpu": ["a100", "h100"]},
        "amount": {"gpu": 4},
        "from": None,
        "to": "2027-01-01T00:00:00Z",
    }
    again = GroupForm(instance=Group.objects.get(slug="ml"))
    assert again.initial["limit"] == "gpu=4; gpu=a100,h100; ; 2027-01-01T00:00Z"


@pytest.mark.parametrize(
    "line",
    [
        "gpu",
        "gpu=x",
        "gpu=1Gi",
        "gpu=-1",
        "gpu=1 gpu=2",
        "gpu=1; a",
        "gpu=1; a=b,",
        "gpu=1; a=b a=c",
        "gpu=1;; yesterday",
        "gpu=1;; 2027-01-01",
        "a=1;;;;",
        "gpu=\uff11\uff12",
        "gpu=1.\u0661",
        "gpu=5;; 9999-12-31T23:59-05:00",
        "gpu=5;;; 9999-12-31T23:59:59.999999-00:01",
        "gpu=5;; 0001-01-01T00:00+05:00",
        "gpu=5;; \uff12\uff10\uff12\uff17-01-01T00:00Z",
    ],
)
def test_lines_that_are_no_limits_are_named(line):
    for kind in ("limit", "guarantee", "lend"):
        with pytest.raises(ValidationError, match=f"{NOUNS[kind].capitalize()} 1: expected|twice"):
            LimitsField(kind).clean(line)


def test_a_selector_that_is_written_as_text_or_as_list_is_the_same_limit(
    pool, operator, department
):
    row = {"where": {"gpu": "a100"}, "amount": {"gpu": 1}, "from": None, "to": None}
    assert patch(operator, f"{PATH}/groups/ml/", {"limit": [row]}).json()["limit"] == [row]
    terms = GroupTerms.objects.get(group__slug="ml", end=None)
    group = Group.objects.get(slug="ml")
    form = GroupForm(
        {"name": "ML", "weight": "1", "tier": "0", "limit": limits_text(terms.limit)},
        instance=group,
    )
    form.fields.pop("pool", None), form.fields.pop("slug", None)
    assert form.is_valid(), form.errors
    assert form.affecting() == []
    as_list = {**row, "where": {"gpu": ["a100"]}}
    assert patch(operator, f"{PATH}/groups/ml/", {"limit": [as_list]}).json()["limit"] == [row]
    assert GroupTerms.objects.filter(group__slug="ml").count() == 2
    put(operator, f"{PATH}/members/bio/", {"weight": 1, "limit": [row]})
    put(operator, f"{PATH}/members/bio/", {"weight": 1, "limit": [as_list]})
    assert operator.get(f"{PATH}/members/bio/").json()["limit"] == [row]
    other = {**row, "where": {"gpu": ["a100", "h100"]}}
    assert patch(operator, f"{PATH}/groups/ml/", {"limit": [other]}).json()["limit"] == [other]


def test_nodes_with_limits_are_found_by_indexes_among_many_without(pool, operator, department):
    now, count = utc_now(), range(3_000)
    groups = Group.objects.bulk_create(
        Group(pool=pool, slug=f"g-{n}", name="G", created_at=now) for n in count
    )
    GroupTerms.objects.bulk_create(GroupTerms(group=each, start=now) for each in groups)
    tenants = Tenant.objects.bulk_create(
        Tenant(slug=f"t-{n}", name="T", created_at=now) for n in count
    )
    members_admit(pool=pool, tenants=tenants, now=now)
    drafts = [WorkloadDraft(tenants[0], f"w-{n}", factories.vector(1, 0)) for n in count]
    workloads_submit(pool=pool, drafts=drafts, now=now)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE pool_group, pool_group_terms, pool_membership,"
                       " pool_membership_terms, workload")  # fmt: skip
        with CaptureQueriesContext(connection) as asked:
            assert next_change_of_limits(pool, after=now) is None
        plans = ""
        for query in list(asked):
            cursor.execute(f"EXPLAIN {query['sql']}")
            plans += "".join(line for (line,) in cursor.fetchall())
    for index in ("group_terms_limited", "membership_terms_limited", "workload_limited"):
        assert index in plans, plans
