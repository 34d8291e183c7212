"""Budgets of groups and tenants: REST, decisions, balances, explanations, and what is refused."""

from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine

from allocator_service.allocation.history import allocation_history
from allocator_service.allocation.trees import run_tree
from allocator_service.allocation.what_if.simulations import simulation_run
from allocator_service.allocation.words import cause_text
from allocator_service.billing.models import Budget
from allocator_service.core.clock import utc_now
from allocator_service.core.models import AuditEntry
from allocator_service.core.quantities import Resource
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.pools.budgets import stop_text
from allocator_service.tenants.models import Tenant
from tests import factories
from tests.pages.browser import browser_of
from tests.pages.test_pages import words

PATH = "/api/v1/pools/shared"
BUDGETS = f"{PATH}/budgets/"
NOW = "2026-12-15T12:00:00+00:00"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def clock():
    with time_machine.travel(NOW, tick=False) as traveller:
        yield traveller


@pytest.fixture
def pool(db, clock):
    """Eight GPUs, which vision and speech of the group ml and bio beside it want."""
    pool = factories.pool("shared", resources=[Resource("cpu", "core"), Resource("gpu", "")])
    factories.server(pool, "gpu-node", 64, 8, None)
    factories.group(pool, "ml")
    factories.group(pool, "deep", "ml")
    for slug, group in (("vision", "deep"), ("speech", "ml"), ("bio", None)):
        tenant = factories.tenant(slug)
        factories.member(pool, tenant, group)
        factories.workload(pool, slug[0], 1, 1, tenant)
    return pool


@pytest.fixture
def of_group(pool):
    def key(group, access="manage"):
        return factories.client("group", group=pool.groups.get(slug=group), access=access)

    return key


def used(pool, slug, hours, *, days_ago=1):
    """GPU-hours of a tenant, within one hour."""
    end = utc_now() - timedelta(days=days_ago)
    row = {
        "pool_id": pool.pk,
        "tenant_id": Tenant.objects.get(slug=slug).pk,
        "server_owner_id": None,
        "workload_id": None,
        "resource": "gpu",
        "unit": "",
        "quantity": Decimal(hours),
        "start": end - timedelta(hours=1),
        "end": end,
        "kind": "usage",
        "corrects": None,
        "reason": "",
        "source": "test",
        "event_id": None,
        "run_id": None,
        "recorded_at": end,
    }
    entries_append([row])
    entries_seal_all(now=utc_now())


def create(client, **changes):
    body = {"group": "ml", "resource": "gpu", "amount": "100", "then": "stop"} | changes
    return client.post(BUDGETS, {name: value for name, value in body.items() if value is not ...})


def patch(client, path, body):
    return client.patch(path, body, If_Match=client.get(path)["ETag"])


def tasks(run):
    rows = run.allocations.select_related("workload")
    return {row.workload.name: (round(row.tasks, 6), row.limited_by) for row in rows}


def test_a_budget_of_a_group(pool, operator):
    made = create(operator, carry="0.25", per="P7D", thresholds=[90])
    assert made.status_code == 201, made.content
    document = made.json()
    assert "Pool-Generation" in made
    expected = {
        "tenant": None,
        "group": "ml",
        "resource": "gpu",
        "amount": "100",
        "per": "P7D",
        "from": None,
        "to": None,
        "carry": "0.25",
        "then": "stop",
        "currency": None,
        "thresholds": [90],
    }
    assert expected.items() <= document.items()
    changed = patch(operator, made["Location"], {"amount": 120, "then": None, "carry": 0})
    assert changed.status_code == 200, changed.content
    assert (changed.json()["amount"], changed.json()["then"]) == ("120", None)
    actions = AuditEntry.objects.filter(object_id=document["id"]).values_list("action", flat=True)
    assert set(actions) == {"budget.create", "budget.update"}
    history = operator.get(f"{made['Location']}history/").json()["results"]
    assert [(row["amount"], row["carry"], row["then"], row["end"]) for row in history] == [
        ("100", "0.25", "stop", "2026-12-15T12:00:00Z"),
        ("120", "0", None, None),
    ]
    for name, value in (("group", "deep"), ("per", "P1M"), ("resource", "cpu")):
        refused = patch(operator, made["Location"], {name: value})
        assert refused.json()["code"] == "field.immutable", refused.content


def test_periods_that_are_left_out(pool, operator):
    assert create(operator).json()["per"] == "P1M"
    once = {"from": "2026-12-01T00:00:00Z", "to": "2027-06-01T00:00:00Z"}
    made = create(operator, **once)
    assert made.status_code == 201, made.content
    assert made.json()["per"] is None
    assert create(operator, **once).json()["code"] == "budget.exists"
    assert create(operator, **once, per="P1M").status_code == 201
    assert create(operator, per="P1M").json()["code"] == "budget.exists"


REFUSED = [
    ({"tenant": "bio"}, "budget.node", "/tenant"),
    ({"group": None}, "budget.node", "/tenant"),
    ({"group": "nobody"}, "group.unknown", "/group"),
    ({"group": None, "tenant": "nobody"}, "tenant.unknown", "/tenant"),
    ({"resource": "tpu"}, "resource.unknown", "/resource"),
    ({"resource": None}, "budget.money", "/group"),
    ({"resource": None, "group": ..., "tenant": "bio"}, "budget.money", "/then"),
    (
        {"resource": None, "group": ..., "tenant": "bio", "then": None, "per": "P7D"},
        "budget.money",
        "/per",
    ),
    ({"amount": 0}, "budget.amount", "/amount"),
    ({"amount": "-1"}, "price.negative", "/amount"),
    ({"amount": "NaN"}, "price.syntax", "/amount"),
    ({"carry": "1.5"}, "budget.carry", "/carry"),
    (
        {"carry": "0.5", "from": "2026-12-01T00:00:00Z", "to": "2027-01-01T00:00:00Z"},
        "budget.carry",
        "/carry",
    ),
    ({"per": "PT6H"}, "budget.period", "/per"),
    ({"per": "P1DT1H"}, "budget.period", "/per"),
    ({"per": "month"}, "duration.syntax", "/per"),
    ({"per": "P0D"}, "duration.zero", "/per"),
    ({"per": "P101Y"}, "duration.too_long", "/per"),
    ({"from": "2026-12-01T00:00:00Z"}, "budget.period", "/per"),
    ({"to": "2026-12-01T00:00:00Z"}, "budget.period", "/per"),
    (
        {"from": "2026-12-01T00:00:00Z", "to": "2026-12-01T00:00:00Z"},
        "budget.period",
        "/to",
    ),
    ({"per": "P100Y", "from": "9999-12-01T00:00:00Z"}, "budget.period", "/from"),
    ({"per": "P1M", "from": "0001-01-01T00:00:00Z"}, "budget.period", "/from"),
    ({"then": "explode"}, "field.choice", "/then"),
    ({"thresholds": []}, "field.count", "/thresholds"),
]


def test_what_is_no_budget_is_refused(pool, operator):
    for changes, code, pointer in REFUSED:
        refused = create(operator, **changes)
        (error,) = refused.json()["errors"]
        found = (refused.status_code, error["code"], error["pointer"])
        assert found == (422, code, pointer), (changes, refused.content)
    assert not Budget.objects.exists()


def test_a_refused_effect_names_null(pool, operator):
    for then, expected in (("pause", "one of: last, stop"), (1, "a string")):
        refused = create(operator, then=then)
        assert refused.status_code == 422
        (error,) = refused.json()["errors"]
        assert (error["pointer"], error["detail"]) == ("/then", f"Expected {expected}, or null.")


def test_the_longest_period_is_decided(pool, operator):
    assert create(operator, per="P100Y", carry="1").status_code == 201
    assert create(operator, per="P100Y", **{"from": "2100-01-01T00:00:00Z"}).status_code == 201
    assert tasks(factories.decision(pool))["b"][0] > 0


def test_an_amount_below_what_is_spent_stops_the_group_at_once(pool, operator):
    used(pool, "vision", 60)
    used(pool, "speech", 50, days_ago=2)
    made = create(operator)
    run = factories.decision(pool)
    assert tasks(run) == {
        "v": (0, "limit:group:ml"),
        "s": (0, "limit:group:ml"),
        "b": (8, "resource:gpu"),
    }
    assert operator.post(f"/api/v1/runs/{run.pk}/verify/").json()["valid"]
    document = operator.get(f"/api/v1/runs/{run.pk}/input/").json()
    assert document["groups"][0]["limit"] == [{"where": {}, "amount": {"gpu": 0}}]
    (balance,) = operator.get(f"{PATH}/entitlements/?group=ml").json()["group"]["budgets"]
    assert balance == {
        "budget": made.json()["id"],
        "resource": "gpu",
        "from": "2026-12-01T00:00:00Z",
        "to": "2027-01-01T00:00:00Z",
        "available": "100",
        "carried": "0",
        "spent": "110",
        "left": "-10",
        "then": "stop",
        "exhausted": True,
        "exhausted_on": None,
    }
    explanation = operator.get(f"/api/v1/runs/{run.pk}/explanation/vision/").json()
    assert explanation["workloads"] == [
        {
            "workload": "v",
            "limited_by": "limit:group:ml",
            "budget": made.json()["id"],
            "detail": "The budget of the group ml, gpu hours, is spent until 1 January 2027, 00:00 UTC.",
        }
    ]
    assert explanation["sentence"].endswith(
        "; v stopped at the budget of group ml, which is spent until 1 January 2027, 00:00 UTC."
        " The budget of group ml, 100 hours of gpu, is exhausted: it gets no gpu until"
        " 1 January 2027, 00:00 UTC."
    )
    assert explanation["budgets"] == [
        {
            "budget": made.json()["id"],
            "tenant": None,
            "group": "ml",
            "resource": "gpu",
            "amount": "100",
            "then": "stop",
            "opens_at": "2027-01-01T00:00:00Z",
        }
    ]
    assert not [each for each in explanation["counterfactuals"] if "limit" in each["words"]]
    raised = patch(operator, made["Location"], {"amount": "111"})
    assert raised.status_code == 200
    assert tasks(factories.decision(pool))["v"][0] == 2


def test_the_tree_names_the_budget_that_stops_a_node(pool, operator, of_group, clock):
    """Its limits of 0 follow the limits that are set, which may be 0 as well."""
    used(pool, "vision", 60)
    used(pool, "speech", 50, days_ago=2)
    factories.limit(pool, "ml", {"gpu": 0, "cpu": 4})
    made = create(operator).json()["id"]
    own = create(operator, group=..., tenant="vision", amount="60").json()["id"]
    last = create(operator, group="deep", amount="60", then="last").json()["id"]
    clock.shift(timedelta(seconds=1))  # keys of a group read what was there before the run
    run = factories.decision(pool)
    path = f"/api/v1/runs/{run.pk}/tree/"

    def limits(client):
        nodes = client.get(path).json()["results"]
        return {node["name"]: [each["budget"] for each in node["limit"]] for node in nodes}

    opens = {"resource": "gpu", "opens_at": "2027-01-01T00:00:00Z"}
    of_ml = {**opens, "budget": made, "amount": "100", "spent": "110"}
    of_vision = {**opens, "budget": own, "amount": "60", "spent": "60"}
    expected = {"ml": [None, of_ml], "deep": [], "vision": [of_vision], "speech": [], "bio": []}
    assert limits(operator) == expected
    assert last in {each["budget"] for each in run.budgets}
    del expected["bio"]
    assert limits(of_group("ml")) == expected
    # A tenant learns nothing of what others spent, and nothing of the budgets of others.
    hidden = {**of_ml, "spent": None}
    vision = factories.client("tenant", tenant=Tenant.objects.get(slug="vision"))
    assert limits(vision) == {"ml": [None, hidden], "deep": [], "vision": [of_vision]}
    pool.transparent = True
    pool.save()
    bio = factories.client("tenant", tenant=Tenant.objects.get(slug="bio"))
    assert {each for found in limits(bio).values() for each in found} == {None}
    assert limits(vision)["vision"] == [of_vision]
    assert limits(vision)["ml"] == [None, hidden]
    page = words(browser_of(vision).text("/my/pools/shared/"))
    assert "budget 100 hours of gpu are spent until 1 January 2027, 00:00 UTC" in page
    assert "budget 60 of 60 hours of gpu are spent until 1 January 2027, 00:00 UTC" in page
    # Decisions of earlier releases have not stored what was spent.
    for each in run.budgets:
        del each["spent"]
    (limit,) = next(node.limit for node in run_tree(run).nodes if node.name == "vision")
    assert stop_text(limit.budget, "UTC").startswith("60 hours of gpu are spent until ")


def test_a_budget_is_the_cause_of_a_step(pool, operator):
    """It is exhausted, and opens with the next day."""
    tenants = {slug: Tenant.objects.get(slug=slug) for slug in ("vision", "bio")}
    factories.decision(pool)
    with time_machine.travel("2026-12-15T13:00:00+00:00", tick=False):
        create(operator, per="P1D", amount="5", then="last")
        create(operator, group=..., tenant="bio", resource="cpu", amount="9", per="P1D")
        used(pool, "vision", 6, days_ago=0)
        factories.decision(pool)
    with time_machine.travel("2026-12-16T00:00:00+00:00", tick=False):
        factories.decision(pool)
        now = utc_now()
        named = {
            slug: [
                [
                    (each["kind"], each["action"], each["group"], each["resource"])
                    for each in step["causes"]
                ]
                for step in operator.get(f"{PATH}/members/{slug}/allocation-history/").json()[
                    "steps"
                ]
            ]
            for slug in tenants
        }
        steps = allocation_history(
            pool=pool, tenant=tenants["vision"], since=now - timedelta(days=1), now=now
        ).steps
        page = browser_of(factories.client("tenant", tenants["vision"])).text(
            "/my/pools/shared/history/"
        )
    assert named == {
        "vision": [
            [], [("budget", "exhaust", "ml", "gpu")], [("budget", "open", "ml", "gpu")],
        ],
        "bio": [[], [("budget", None, None, None)], [("budget", None, None, None)]],
    }  # fmt: skip
    assert [cause_text(each) for step in steps for each in step.causes] == [
        "the budget of the group ml (gpu hours) was exhausted",
        "the budget of the group ml (gpu hours) opened again",
    ]
    assert "the budget of the group ml (gpu hours) opened again" in page


def test_a_budget_below_what_is_spent_is_accepted_with_a_warning(pool, operator, of_group):
    used(pool, "vision", 60)
    made = create(operator, amount="60.5")
    assert "warnings" not in made.json()
    manager = of_group("ml")
    below = create(manager, group=..., tenant="vision", amount="1234", then="last").json()
    assert "warnings" not in below
    changed = patch(manager, f"{BUDGETS}{below['id']}/", {"amount": "60"})
    assert changed.status_code == 200
    assert changed.json()["warnings"] == [
        {
            "code": "budget.exhausted",
            "detail": "The budget of vision is 60.00 hours of gpu, and 60.00 are spent in its present"
            " period: it is served after everybody else until 1 January 2027, 00:00 UTC.",
        }
    ]
    assert "warnings" not in manager.get(f"{BUDGETS}{below['id']}/").json()
    events = create(operator, group="deep", amount="0.5", per="P1Y", then=None).json()["warnings"]
    assert [each["detail"] for each in events] == [
        "The budget of group deep is 0.50 hours of gpu, and 60.00 are spent in its present period:"
        " events are recorded and decisions stay as they are until 1 January 2027, 00:00 UTC."
    ]


def test_a_warning_and_an_explanation_have_all_digits_of_the_amount(pool, operator):
    used(pool, "vision", 60)
    made = create(operator, amount="59.99999")
    assert made.json()["warnings"][0]["detail"].startswith(
        "The budget of group ml is 59.99999 hours of gpu, and 60.00000 are spent in its present"
    )
    run = factories.decision(pool)
    explanation = operator.get(f"/api/v1/runs/{run.pk}/explanation/vision/").json()
    assert "The budget of group ml, 59.99999 hours of gpu, is exhausted:" in explanation["sentence"]


def test_work_without_the_resource_goes_on(pool, operator):
    factories.workload(pool, "cpu-only", 1, 0, Tenant.objects.get(slug="vision"))
    used(pool, "vision", 100)
    create(operator)
    run = factories.decision(pool)
    assert tasks(run)["v"] == (0, "limit:group:ml")
    assert tasks(run)["cpu-only"][0] > 0


def test_a_limit_of_a_group_is_no_budget_for_work_without_its_resource(pool, operator):
    """The group has a limit of cpu, and a budget of gpu that is spent."""
    factories.workload(pool, "cpu-only", 1, 0, Tenant.objects.get(slug="vision"))
    used(pool, "vision", 100)
    budget = create(operator).json()["id"]
    factories.limit(pool, "ml", {"cpu": 3})
    run = factories.decision(pool)
    explanation = operator.get(f"/api/v1/runs/{run.pk}/explanation/vision/").json()
    assert explanation["workloads"] == [
        {
            "workload": "v",
            "limited_by": "limit:group:ml",
            "budget": budget,
            "detail": "The budget of the group ml, gpu hours, is spent until 1 January 2027, 00:00 UTC.",
        },
        {
            "workload": "cpu-only",
            "limited_by": "limit:group:ml",
            "budget": None,
            "detail": "The limit of the group ml is reached.",
        },
    ]


def test_best_effort_below_a_group_until_the_period_ends(pool, operator):
    used(pool, "vision", 100, days_ago=0)
    create(operator, then="last", per="P1D")
    run = factories.decision(pool)
    assert tasks(run)["b"][0] == 8
    assert tasks(run)["v"][0] == 0
    explanation = operator.get(f"/api/v1/runs/{run.pk}/explanation/speech/").json()
    assert "it is served after everybody else until 16 December 2026" in explanation["sentence"]
    with time_machine.travel("2026-12-16T00:00:00+00:00", tick=False):
        assert tasks(factories.decision(pool))["v"][0] == 2


def test_overlapping_budgets_bind_each_for_itself(pool, operator):
    """One of the week and one of the month for the group, and one of a member below it."""
    used(pool, "vision", 30)
    used(pool, "speech", 15, days_ago=10)
    create(operator, amount="50")
    create(operator, amount="40", per="P7D")
    create(operator, group=..., tenant="vision", amount="30")
    run = factories.decision(pool)
    assert {name: count for name, (count, _) in tasks(run).items()} == {"v": 0, "s": 4, "b": 4}
    assert tasks(run)["v"][1] == "limit:tenant"
    used(pool, "speech", 10, days_ago=0)
    assert tasks(factories.decision(pool))["s"] == (0, "limit:group:ml")
    input_ = operator.get(f"/api/v1/runs/{run.pk}/input/").json()
    assert [group.get("limit") for group in input_["groups"]] == [None, None]


def test_a_balance_names_the_day_on_which_it_is_exhausted(pool, operator):
    create(operator, amount="100", then=None)
    used(pool, "vision", 24, days_ago=0)
    factories.decision(pool)
    (balance,) = operator.get(f"{PATH}/entitlements/?group=ml").json()["group"]["budgets"]
    assert (balance["spent"], balance["left"]) == ("24", "76")
    assert balance["exhausted_on"] == "2026-12-18T16:00:00Z"


def test_a_tenant_sees_its_own_balance_alone(pool, operator):
    create(operator)
    create(operator, group=..., tenant="vision", amount="7")
    create(operator, group=..., tenant="bio", amount="9")
    used(pool, "vision", 2)
    pool.transparent = True
    pool.save()
    factories.decision(pool)
    vision = factories.client("tenant", Tenant.objects.get(slug="vision"))
    rows = vision.get(f"{PATH}/entitlements/").json()["tenants"]
    assert [[each["left"] for each in row["budgets"]] for row in rows if row["budgets"]] == [["5"]]
    assert [row["amount"] for row in vision.get(BUDGETS).json()["results"]] == ["7"]
    assert create(vision, tenant="vision", group=...).status_code == 403
    agent = factories.client("agent", pool="shared")
    rows = agent.get(f"{PATH}/entitlements/").json()["tenants"]
    assert [row["budgets"] for row in rows] == [[], [], []]


def test_a_groups_manager_sets_budgets_below_it_and_never_its_own(pool, operator, of_group):
    own = create(operator)["Location"]
    below = create(operator, group="deep", amount="40")["Location"]
    other = create(operator, group=..., tenant="bio")["Location"]
    manager, reader = of_group("ml"), of_group("ml", access="read")
    assert len(manager.get(BUDGETS).json()["results"]) == 2
    assert manager.get(other).status_code == 404
    assert patch(manager, below, {"amount": "30"}).json()["amount"] == "30"
    assert create(manager, group=..., tenant="speech").status_code == 201
    assert create(manager, group="deep", per="P7D").status_code == 201
    for refused in (
        patch(manager, own, {"amount": "1000"}),
        create(manager, per="P7D"),
        manager.delete(own, If_Match='"v1"'),
    ):
        assert (refused.status_code, refused.json()["code"]) == (403, "auth.group")
    assert create(manager, group=..., tenant="bio").json()["code"] == "tenant.unknown"
    assert create(reader, group="deep", per="P1D").status_code == 403
    inner = of_group("deep")
    assert create(inner, group="ml", per="P1D").json()["code"] == "group.unknown"
    factories.decision(pool)
    sums = manager.get(f"{PATH}/entitlements/").json()
    assert next(row["amount"] for row in manager.get(BUDGETS).json()["results"]) == "100"
    assert len(sums["group"]["budgets"]) == 1
    assert [len(row["budgets"]) for row in sums["groups"]] == [2]


def test_a_policy_that_keeps_no_limits_has_no_budget_that_stops(pool, operator):
    pool_path = f"{PATH}/"
    stop = create(operator)
    body = {"policy": {"name": "ceei"}}
    operator.delete(f"{PATH}/groups/deep/", If_Match='"v1"')
    refused = patch(operator, pool_path, body)
    assert refused.status_code == 422
    for slug in ("vision", "speech"):
        factories.member(pool, Tenant.objects.get(slug=slug), None)
    for group in ("deep", "ml"):
        answer = operator.delete(
            f"{PATH}/groups/{group}/", If_Match=operator.get(f"{PATH}/groups/{group}/")["ETag"]
        )
        assert answer.status_code == 204, answer.content
    assert operator.get(stop["Location"]).status_code == 404
    assert Budget.objects.get().retired_at is not None
    create(operator, group=..., tenant="bio")
    refused = patch(operator, pool_path, body)
    assert refused.json()["code"] == "policy.no_limits", refused.content


def test_a_simulation_keeps_the_effect_of_budgets(pool, operator):
    used(pool, "vision", 100)
    create(operator)
    factories.decision(pool)
    changes = {
        "groups": [{"group": "ml", "weight": 5, "limit": [{"amount": {"gpu": 4}}]}],
        "members": [{"tenant": "speech", "group": None}],
    }
    made = operator.post(f"{PATH}/simulations/", changes)
    assert made.status_code in (201, 202), made.content
    simulation_run(simulation_id=made.json()["id"], clock=utc_now)
    result = operator.get(made["Location"]).json()
    assert result["status"] == "succeeded", result
    after = {row["workload"]: row["after"]["tasks"] for row in result["result"]["workloads"]}
    assert after["v"] == 0
    assert after["s"] > 0


@pytest.mark.parametrize(
    ("policy", "mode", "then", "left"),
    [
        ("drfh", "indivisible", "stop", 0),
        ("drf", "divisible", "stop", 0),
        ("drf", "indivisible", "last", 0),
        ("lt-drf", None, "last", 0),
        ("static", None, "last", None),
    ],
)
def test_policies_and_modes(db, clock, operator, policy, mode, then, left):
    """Whole tasks stop with the decision, and a policy without limits serves the tenant last."""
    pool = factories.pool(
        "shared", resources=[Resource("cpu", "core"), Resource("gpu", "")], policy=policy, mode=mode
    )
    for slug in ("bio", "chem"):
        tenant = factories.tenant(slug)
        factories.member(pool, tenant, None)
        factories.server(pool, slug, 32, 4, tenant)
        factories.workload(pool, slug, 1, 1, tenant)
    assert {count for count, _ in tasks(factories.decision(pool)).values()} == {4}
    used(pool, "bio", 100)
    body = {"group": ..., "tenant": "bio"}
    made = create(operator, **body, then="stop")
    if then == "stop":
        assert made.status_code == 201, made.content
    elif policy in ("drf", "drfh"):
        operator.delete(made["Location"], If_Match='"v1"')
        assert create(operator, **body, then="last").status_code == 201
    else:
        assert (made.status_code, made.json()["code"]) == (422, "policy.no_limits")
        assert create(operator, **body, then="last").status_code == 201
    run = factories.decision(pool)
    assert run.budgets[0]["then"] == then
    if left is not None:
        assert tasks(run)["bio"][0] == left
    assert operator.post(f"/api/v1/runs/{run.pk}/verify/").json()["valid"]
