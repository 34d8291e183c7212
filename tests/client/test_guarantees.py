"""Guarantees, own servers and loans in `alloc tree` and `alloc share`."""

import json

import pytest

from tests.client.answers import TENANTS, decision
from tests.client.test_limiting import UNIT
from tests.client.test_transport import JSON, PROBLEM, page
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


AMOUNTS = {name: {"cpu": "8"} for name in ("entitled", "has", "lent", "borrowed", "unused")}
SUMS = {"run": "r-1", "generation": 9, "at": "2027-01-04T08:00:00Z"}
NO_TENANTS = (403, PROBLEM, {"status": 403, "code": "auth.scope", "detail": "Not by this key."})


def used(**node):
    return {**node, "used": {"cpu": "3600"}, "sharing_degree": {"resources": {"cpu": 1.5}}}


def test_a_key_of_a_group_sees_its_sum_and_the_groups_and_members_below(alloc, told):
    shares = {
        **SUMS, "group": {"group": "ml", **AMOUNTS}, "groups": [{"group": "speech", **AMOUNTS}],
        "tenants": [{"tenant": "ada", **AMOUNTS, "returns": None}],
    }  # fmt: skip
    report = {
        "group": used(group="ml"), "groups": [used(group="speech")], "tenants": [used(tenant="ada")],
    }  # fmt: skip
    nodes = [node("group", "ml"), node("group", "speech", "ml", 1), node("member", "ada", "ml", 1)]
    tree = page(nodes, None, last=True)
    told(NO_TENANTS, (200, JSON, shares), (200, JSON, report), tree, (200, JSON, UNIT))
    done = alloc("share", "lab")
    assert done.exit_code == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines if line[1:3] == ["cpu", "(core)"]] == [
        "ml/",
        "speech/",
        "ada",
    ]
    assert lines[1][3:] == ["8", "8", "8", "8", "1", "1.5"]


def test_a_key_of_a_group_asks_for_one_tenant_in_the_group_of_it(alloc, told):
    nodes = [
        node("group", "ml"),
        node("group", "speech", "ml", 1),
        node("member", "ada", "speech", 2),
    ]
    tree = page(nodes, None, last=True)
    own = {**SUMS, "group": {"group": "ml", **AMOUNTS}, "groups": [], "tenants": []}
    inner = {**own, "tenants": [{"tenant": "ada", **AMOUNTS, "returns": None}]}
    report = {"group": used(group="speech"), "groups": [], "tenants": [used(tenant="ada")]}
    service = told(
        (200, JSON, own), tree, (200, JSON, inner), (200, JSON, report), tree, (200, JSON, UNIT)
    )
    done = alloc("share", "lab", "--tenant", "ada")
    assert done.exit_code == 0, done.stderr
    assert "ml/" not in done.stdout
    asked = [path for _, path, _ in service.asked]
    assert "/api/v1/pools/lab/entitlements/?group=speech" in asked
    assert "/api/v1/pools/lab/reports/sharing-degree/?group=speech" in asked


def test_a_key_of_a_group_names_whom_it_asks_why_about(alloc, told):
    told(NO_TENANTS)
    done = alloc("why", "lab")
    assert done.exit_code == 2
    assert "name one with --tenant" in done.stderr
