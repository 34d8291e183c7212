"""Balances of budgets and the cost of an allocation in `alloc share`."""

import json

from allocator_client.cli.sharing import _balance_text
from tests.client.answers import TENANTS
from tests.client.test_guarantees import shares_of
from tests.client.test_limiting import UNIT
from tests.client.test_transport import JSON, page

BALANCE = {
    "budget": "01a1",
    "resource": "gpu",
    "from": "2027-03-01T00:00:00Z",
    "to": "2027-04-01T00:00:00Z",
    "available": "4400",
    "carried": "400",
    "spent": "1100.25",
    "left": "3299.75",
    "then": "stop",
    "exhausted": False,
    "exhausted_on": "2027-03-21T20:00:00Z",
}


def test_what_is_left_and_when_it_is_exhausted():
    assert _balance_text("group ml", BALANCE) == (
        "Budget of group ml until 1 April 2027, 00:00 UTC: 3,299.75 of 4,400 hours of gpu left,"
        " 1,100.25 spent."
        " At the rate of the last day it is exhausted on 21 March 2027, 20:00 UTC."
    )


def test_what_follows_from_an_exhausted_budget():
    spent = {**BALANCE, "left": "-8", "spent": "4408", "exhausted": True, "exhausted_on": None}
    assert _balance_text("ada", spent).endswith(
        "-8 of 4,400 hours of gpu left, 4,408 spent. It is exhausted: until then ada is allocated none."
    )
    last = _balance_text("ada", {**spent, "then": "last"})
    assert last.endswith("until then ada is served after everybody else.")
    assert _balance_text("ada", {**spent, "then": None}).endswith("4,408 spent.")


COST = {
    "currency": "EUR",
    "per_hour": "0.30",
    "over_30_days": "216.00",
    "words": "The allocation of physics costs 0.30 EUR per hour at today's prices.",
}


def shares(**costs):
    (status, headers, body), report = shares_of("physics", "speech")
    rows = [{**row, "cost": costs.get(row["tenant"])} for row in body["tenants"]]
    return (status, headers, {**body, "tenants": rows}), report, page([], None, last=True)


def test_the_share_states_what_the_allocation_costs(alloc, told):
    told(TENANTS, *shares(physics=COST), (200, JSON, UNIT))
    assert alloc("share", "lab").stdout.splitlines()[-1] == COST["words"]
    told(TENANTS, *shares(), (200, JSON, UNIT))
    assert "costs" not in alloc("share", "lab").stdout


def test_the_share_as_json_has_the_figures_of_the_cost(alloc, told):
    told(TENANTS, *shares(physics=COST))
    (row,) = json.loads(alloc("share", "lab", "--json").stdout)["entitlements"]["tenants"]
    assert row["cost"] == COST
