"""The balance of a budget in `alloc share`."""

from allocator_client.cli.deciding import _balance_text

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
        "Budget of group ml until 1 April 2027, 00:00 UTC: 3,300 of 4,400 hours of gpu left,"
        " 1,100 spent."
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
