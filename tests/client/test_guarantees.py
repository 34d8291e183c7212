"""Guarantees, own servers and loans in `alloc tree` and `alloc share`."""

import json

import pytest

from tests.client.answers import TENANTS, decision
from tests.client.test_limiting import UNIT
from tests.client.test_transport import JSON, page
from tests.client.test_trees import node

GPUS = {"where": {"gpu": ["h100"]}, "amount": {"gpu": 8}, "has": {"gpu": 6}}
SHARES = {"generation": 9, "at": "2027-01-04T09:00:00+01:00", "run": "r-1"}


@pytest.fixture
def nodes():
    """A group whose numbers are hidden, and a member of it that lacks a quarter."""
    hidden = dict.fromkeys(("has", "met", "limited_by"))
    unmet = {"met": 0.75, "limited_by": ["resource:gpu", "limit:tenant"]}
    return [
        node("group", "ml", guarantee=[{**GPUS, **hidden}], guaranteed=None, own_servers=None),
        node(
            "member", "physics", "ml", 1, guaranteed={"cpu": 0, "gpu": 8}, lend=[GPUS],
            guarantee=[{**GPUS, **unmet}, {**GPUS, "where": {}, "met": 1, "limited_by": []}],
            own_servers={"met": 1, "limited_by": []},
        ),
        node("member", "speech", "ml", 1, guaranteed={"cpu": 0, "gpu": 0}),
    ]  # fmt: skip


def test_the_tree_shows_what_is_guaranteed_and_lent(alloc, told, nodes):
    told(decision(9), (200, JSON, UNIT), page(nodes, None, last=True))
    lines = alloc("tree", "lab").stdout.splitlines()
    assert lines[0].split()[-2:] == ["GUARANTEED", "LENDS"]
    assert lines[2].endswith("  8 GPUs on gpu=h100")
    assert (
        "8 GPUs on gpu=h100: 75.0 % met, limited by gpu, limit:tenant; 8 GPUs: met; own servers: met"
        in lines[3]
    )
    assert lines[3].endswith("  6 of 8 GPUs on gpu=h100")
    assert lines[4].split()[-1] == "3"


def test_without_guarantees_the_tree_has_no_such_columns(alloc, told):
    told(decision(9), (200, JSON, UNIT), page([node("member", "physics")], None, last=True))
    assert "GUARANTEED" not in alloc("tree", "lab").stdout


def shares_of(*tenants):
    names = ("entitled", "has", "lent", "borrowed")
    amounts = {name: {"cpu": "1", "gpu": "6"} for name in names}
    rows = [{"tenant": name, "returns": None, **amounts} for name in tenants]
    return (200, JSON, {**SHARES, "tenants": rows}), (200, JSON, {"tenants": []})


def test_the_share_has_what_is_guaranteed_beside_what_is_allocated(alloc, told, nodes):
    found = page(nodes, None, last=True)
    told(TENANTS, *shares_of("physics", "speech"), found, (200, JSON, UNIT))
    lines = alloc("share", "lab").stdout.splitlines()
    assert lines[0].split()[:4] == ["TENANT", "RESOURCE", "ENTITLED", "GUARANTEED"]
    assert [line.split()[3:6] for line in lines[1:3]] == [["1", "0", "1"], ["6", "8", "6"]]
    assert lines[-5:] == [
        "Guaranteed to physics: 8 GPUs on gpu=h100: 75.0 % met, limited by gpu, limit:tenant.",
        "Guaranteed to physics: 8 GPUs: met.",
        "Guaranteed to physics: own servers: met.",
        "Lent by physics: 6 of 8 GPUs on gpu=h100.",
        "Guaranteed to group ml: 8 GPUs on gpu=h100.",
    ]


def test_the_share_of_all_has_a_column_only_if_any_is_guaranteed(alloc, told, nodes):
    told(*shares_of("physics", "speech"), page(nodes, None, last=True), (200, JSON, UNIT))
    lines = alloc("share", "lab", "--all").stdout.splitlines()
    assert [line.split()[4] for line in lines[1:5:2]] == ["0", "0"]
    assert [line.split()[4] for line in lines[2:5:2]] == ["8", "0"]
    assert not any(line.startswith("Guaranteed to") for line in lines)
    told(*shares_of("speech"), page(nodes[2:], None, last=True), (200, JSON, UNIT))
    assert "GUARANTEED" not in alloc("share", "lab", "--all").stdout


def test_the_share_as_json_has_the_nodes_of_the_tenant(alloc, told, nodes):
    told(TENANTS, *shares_of("physics", "speech"), page(nodes, None, last=True))
    document = json.loads(alloc("share", "lab", "--json").stdout)
    assert [each["name"] for each in document["nodes"]] == ["physics", "ml"]
    assert document["nodes"][0]["guarantee"] == nodes[1]["guarantee"]
    assert [row["tenant"] for row in document["entitlements"]["tenants"]] == ["physics"]
