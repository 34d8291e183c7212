"""`alloc limits` and `alloc limit`, and limits in `alloc tree` and `alloc share`."""

import json

import pytest

from tests.client.answers import POOL, TENANTS, decision
from tests.client.test_changing import LISTED, WORKLOAD
from tests.client.test_transport import JSON, page
from tests.client.test_trees import node

GPUS = {"where": {"gpu": ["h100", "a100"]}, "amount": {"gpu": 8}, "from": None, "to": None}
CORES = {
    "where": {}, "amount": {"cpu": 1}, "from": "2027-01-04T09:00:00+01:00",
    "to": "2027-02-01T00:00:00+01:00",
}  # fmt: skip
TAGGED = {**JSON, "ETag": '"v3"'}
CHANGED = {**JSON, "Pool-Generation": "1234"}
MEMBER = {
    "tenant": "physics", "weight": 2, "best_effort": False, "group": "ml", "tier": 1, "version": 3,
    "limit": [GPUS],
}  # fmt: skip
CPU_AND_GPU = [{"name": "cpu", "unit": "core"}, {"name": "gpu", "unit": "GPU"}]
UNIT = {**POOL, "resources": CPU_AND_GPU}


def group(*limits):
    return {"slug": "ml", "name": "ML", "limit": list(limits)}


def test_limits_are_listed_by_node(alloc, told):
    told(
        page([group(GPUS, CORES)], None, last=True), page([MEMBER], None, last=True),
        page([{**WORKLOAD, "limit": []}], None, last=True), (200, JSON, UNIT),
    )  # fmt: skip
    start, end = "4 January 2027, 08:00 UTC", "31 January 2027, 23:00 UTC"
    assert alloc("limits", "lab").stdout.splitlines() == [
        f"NODE    NAME     NO.  LIMIT   SERVERS           {'FROM':25}  UNTIL",
        f"group   ml         1  8 GPUs  gpu=h100 or a100  {'-':25}  -",
        f"group   ml         2  1 core  all               {start}  {end}",
        f"member  physics    1  8 GPUs  gpu=h100 or a100  {'-':25}  -",
    ]


def test_a_limit_has_all_of_its_digits(alloc, told):
    exact = {**GPUS, "where": {}, "amount": {"gpu": "8.9999999999"}}
    told(
        page([group(exact)], None, last=True), page([], None, last=True),
        page([], None, last=True), (200, JSON, UNIT),
    )  # fmt: skip
    assert " 8.9999999999 GPUs " in alloc("limits", "lab").stdout


def test_a_limit_of_a_group_is_added_at_the_version_that_was_shown(alloc, told):
    service = told((200, TAGGED, group(CORES)), (200, JSON, POOL), (200, CHANGED, group()))
    done = alloc(
        "limit", "lab", "--group", "ml", "gpu=8,cpu=100", "--on", "gpu=h100", "--on", "gpu=a100",
        "--from", "2027-01-01", "--to", "2027-04-01T12:00Z",
    )  # fmt: skip
    assert done.stdout == "Set a limit of group ml as generation 1,234 of lab.\n", done.output
    added = {
        "where": {"gpu": ["h100", "a100"]}, "amount": {"gpu": "8", "cpu": "100"},
        "from": "2027-01-01T00:00:00+01:00", "to": "2027-04-01T12:00:00+00:00",
    }  # fmt: skip
    assert json.loads(service.bodies[-1]) == {"limit": [CORES, added]}
    assert service.asked[-1][2]["If-Match"] == '"v3"'


@pytest.mark.parametrize("option", ["--from", "--to"])
@pytest.mark.parametrize(
    ("time", "text"),
    [
        (
            "2027-03-28T02:30",
            "2027-03-28T02:30:00 does not exist in Europe/Berlin, where the clocks",
        ),
        ("2027-10-31T02:30", "2027-10-31T02:30:00 is ambiguous in Europe/Berlin, where the clocks"),
    ],
)
def test_a_time_at_a_change_of_clocks_is_refused_without_an_offset(alloc, told, option, time, text):
    service = told((200, TAGGED, group()), (200, JSON, POOL))
    refused = alloc("limit", "lab", "--group", "ml", "gpu=8", option, time)
    assert refused.exit_code == 2
    assert text in " ".join(refused.output.split())
    assert [method for method, *_ in service.asked] == ["GET", "GET"]


def test_an_offset_tells_times_at_a_change_of_clocks_apart(alloc, told):
    service = told((200, TAGGED, group()), (200, JSON, POOL), (200, CHANGED, group()))
    dates = ("--from", "2027-03-28T03:00", "--to", "2027-10-31T02:30+02:00")
    done = alloc("limit", "lab", "--group", "ml", "gpu=8", *dates)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(service.bodies[-1])["limit"]
    assert (row["from"], row["to"]) == ("2027-03-28T03:00:00+02:00", "2027-10-31T02:30:00+02:00")


def test_a_limit_of_a_member_keeps_its_other_terms(alloc, told):
    service = told((200, TAGGED, MEMBER), (200, CHANGED, MEMBER))
    done = alloc("limit", "lab", "--member", "physics", "--remove", "1")
    assert done.stdout == "Removed a limit of member physics as generation 1,234 of lab.\n"
    assert json.loads(service.bodies[-1]) == {
        "weight": 2, "best_effort": False, "group": "ml", "tier": 1, "limit": [],
    }  # fmt: skip
    assert service.asked[-1][:2] == ("PUT", "/api/v1/pools/lab/members/physics/")


def test_a_tenant_limits_its_workload(alloc, told):
    shown = (200, TAGGED, {**WORKLOAD, "limit": []})
    service = told(TENANTS, LISTED, shown, (200, JSON, POOL), (200, CHANGED, WORKLOAD))
    assert alloc("limit", "lab", "--workload", "a", "cpu=1").exit_code == 0
    assert json.loads(service.bodies[-1]) == {"limit": [{"where": {}, "amount": {"cpu": "1"}}]}
    assert service.asked[-1][:2] == ("PATCH", "/api/v1/pools/lab/workloads/id-a/")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("cpu=1",), 2, "Name one of --group, --member and --workload."),
        (("--group", "a", "--member", "b", "cpu=1"), 2, "Name one of"),
        (("--group", "a"), 2, "Give amounts to add a limit, or --remove"),
        (("--group", "a", "cpu=1", "--remove", "1"), 2, "Give amounts to add a limit"),
        (("--group", "a", "cpu"), 2, "is not written like"),
        (("--group", "ml", "--remove", "2"), 1, "group ml has 1 limit: see alloc limits lab."),
    ],
)
def test_what_is_wrong_is_named(alloc, told, arguments, code, text):
    told((200, TAGGED, group(GPUS)))
    done = alloc("limit", "lab", *arguments)
    assert (done.exit_code, text in done.stderr) == (code, True), done.output


def test_the_tree_and_the_share_show_what_is_allocated_of_limits(alloc, told):
    used = {"where": {"gpu": ["h100"]}, "amount": {"gpu": 8}, "has": {"gpu": 2.5}}
    nodes = [
        node("group", "ml", limit=[{**used, "has": None}]),
        node("member", "physics", "ml", 1, limit=[used, {**used, "where": {}}]),
    ]
    tree = page(nodes, None, last=True)
    told(decision(9), (200, JSON, UNIT), tree)
    lines = alloc("tree", "lab").stdout.splitlines()
    assert lines[0].endswith("  LIMIT")
    assert lines[2].endswith("  8 GPUs on gpu=h100")
    assert lines[3].endswith("  2.5 of 8 GPUs on gpu=h100; 2.5 of 8 GPUs")
    shares = {"generation": 9, "at": "2027-01-04T09:00:00+01:00", "tenants": [], "run": "r-1"}
    told(TENANTS, (200, JSON, shares), (200, JSON, {"tenants": []}), tree, (200, JSON, UNIT))
    assert alloc("share", "lab").stdout.splitlines()[-3:] == [
        "Limit of physics: 2.5 of 8 GPUs on gpu=h100.",
        "Limit of physics: 2.5 of 8 GPUs.",
        "Limit of group ml: 8 GPUs on gpu=h100.",
    ]
