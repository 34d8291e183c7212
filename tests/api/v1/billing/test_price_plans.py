"""Plans over REST: drafts, what cannot be one, and reratings."""

import pytest

from allocator_service.billing.models import Posting, PricePlan
from tests.api.v1.billing.conftest import APRIL, PLANS, POOL, closed, plan

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("changes", "status", "code", "pointer"),
    [
        ({"currency": "EUX"}, 422, "currency.unknown", "/currency"),
        ({"currency": "USD"}, 409, "plan.currency", "/currency"),
        ({"pool": "nowhere"}, 422, "pool.unknown", "/pool"),
        ({"increment": "hour-up"}, 422, "plan.increment", "/increment"),
        ({"fee": "-0.1"}, 422, "price.negative", "/fee"),
        ({"fee": "1.5"}, 422, "plan.fee", "/fee"),
        (
            {"rates": [{"resource": "gpu", "own": "1"}]},
            422,
            "resource.unknown",
            "/rates/0/resource",
        ),
        ({"rates": [{"resource": "cpu", "own": -1}]}, 422, "price.negative", "/rates/0/own"),
        ({"rates": [{"resource": "cpu", "own": "NaN"}]}, 422, "price.syntax", "/rates/0/own"),
        ({"rates": [{"resource": "cpu", "own": "1e3"}]}, 422, "price.syntax", "/rates/0/own"),
        ({"rates": [{"resource": "cpu", "own": "1" * 13}]}, 422, "price.too_large", "/rates/0/own"),
        (
            {"rates": [{"resource": "cpu", "own": "0.0000000000001"}]},
            422,
            "price.precision",
            "/rates/0/own",
        ),
        (
            {"rates": [{"resource": "cpu", "owner": "nobody", "shared": 1}]},
            422,
            "tenant.unknown",
            "/rates/0/owner",
        ),
        ({"to": "2027-01-01T00:00:00Z"}, 422, "plan.interval", "/to"),
        ({"note": "x"}, 400, "field.unknown", "/note"),
    ],
)
def test_what_cannot_be_a_plan_is_refused(lab, operator, changes, status, code, pointer):
    answer = operator.post(PLANS, plan(**changes))
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert not PricePlan.objects.exists()


def test_a_draft_is_edited_at_its_version_and_published_once(lab, operator):
    made = operator.post(PLANS, plan())
    path = made["Location"]
    assert operator.patch(path, {"name": "x"}).status_code == 428
    assert operator.patch(path, {"name": "x"}, If_Match='"v9"').status_code == 412
    changed = operator.patch(path, {"fee": "0.2", "to": "2027-05-01T00:00:00Z"}, If_Match='"v1"')
    assert (changed["ETag"], changed.json()["fee"]) == ('"v2"', "0.2")
    assert changed.json()["rates"] == made.json()["rates"]
    published_ = operator.post(f"{path}publish/", If_Match='"v2"')
    assert (published_.json()["state"], published_.json()["number"]) == ("published", 1)
    for refused in (
        operator.patch(path, {"name": "x"}, If_Match="*"),
        operator.delete(path, If_Match="*"),
        operator.post(f"{path}publish/"),
    ):
        assert (refused.status_code, refused.json()["code"]) == (409, "plan.published")
    assert operator.get(path).json()["name"] == "2027"
    currency = operator.patch(f"{POOL}/", {"currency": "CHF"}, If_Match="*")
    assert (currency.status_code, currency.json()["code"]) == (409, "pool.money_fixed")
    draft = operator.post(PLANS, plan("2028-01-01T00:00:00Z"))
    assert operator.post(f"{draft['Location']}publish/").json()["code"] == "plan.gap"
    assert operator.delete(draft["Location"], If_Match='"v1"').status_code == 204


def test_an_unknown_currency_is_refused_for_pools_too(operator):
    body = {"slug": "x", "name": "x", "currency": "EUX", "resources": [{"name": "cpu"}]}
    answer = operator.post("/api/v1/pools/", {**body, "policy": {"name": "drf"}})
    assert (answer.status_code, answer.json()["code"]) == (422, "currency.unknown")


def test_a_rerating_dry_and_done(march, operator, billing):
    closed(operator)
    body = plan("2027-03-15T00:00:00+01:00", "0.05", to="2027-03-20T00:00:00+01:00")
    draft = operator.post(PLANS, body).json()["id"]
    asked = {"plan": draft, "reason": "agreed in February"}
    dry = operator.post(f"{POOL}/reratings/", {**asked, "dry_run": True})
    assert (dry.status_code, dry.json()["id"]) == (200, None)
    assert not Posting.objects.filter(kind="reversal").exists()
    done = operator.post(f"{POOL}/reratings/", asked)
    assert (done.status_code, done.json()["changes"]) == (201, dry.json()["changes"])
    assert [(row["tenant"], row["difference"]) for row in done.json()["changes"]] == [
        ("a", "3.60"),
        ("b", "-3.24"),
    ]
    again = operator.post(f"{POOL}/reratings/", asked)
    assert (again.status_code, again.json()) == (200, done.json())
    dry = operator.post(f"{POOL}/reratings/", {**asked, "dry_run": True})
    assert (dry.status_code, dry.json()) == (200, done.json())
    assert billing.get(f"{POOL}/statements/{APRIL}/a/").json()["totals"]["billed"] == "3.60"
    assert len(billing.get(f"{POOL}/reratings/").json()["results"]) == 1
    unknown = operator.post(f"{POOL}/reratings/", {**asked, "plan": str(march.entries.first().pk)})
    assert unknown.json()["code"] == "price_plan.unknown"


def test_a_rate_may_be_tiers(lab, operator):
    tiers = [{"through": "10000", "price": "0"}, {"price": "0.02"}]
    made = operator.post(PLANS, plan(rates=[{"resource": "cpu", "own": "0.01", "tiers": tiers}]))
    assert made.status_code == 201
    (rate,) = made.json()["rates"]
    shown = [{"through": "10000", "price": "0"}, {"through": None, "price": "0.02"}]
    assert (rate["own"], rate["shared"], rate["tiers"]) == ("0.01", None, shown)
    renamed = operator.patch(made["Location"], {"name": "tiered"}, If_Match=made["ETag"])
    assert (renamed.status_code, renamed.json()["rates"]) == (200, [rate])
    for wrong, pointer in (
        ([*tiers, {"price": "1"}], "/rates/0/tiers/1/through"),
        ([{"through": "-1", "price": "0"}], "/rates/0/tiers/0/through"),
        ([{"through": "1"}], "/rates/0/tiers/0/price"),
        ([{"price": "9999999999"}], "/rates/0/tiers/0/price"),
    ):
        refused = operator.post(PLANS, plan(rates=[{"resource": "cpu", "tiers": wrong}]))
        assert refused.status_code in (400, 422)
        assert pointer in [error["pointer"] for error in refused.json()["errors"]]
