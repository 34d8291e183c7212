"""`alloc tree` and `alloc import groups`: the tree of a pool, drawn and imported."""

import json

from tests.client.answers import POOL, POOLS, decision
from tests.client.test_transport import JSON, page


def node(kind, name, parent=None, depth=0, **more):
    return {
        "kind": kind, "name": name, "parent": parent, "depth": depth, "weight": 1, "tier": 0,
        "best_effort": False, "part": 0.5, "level": 0.25, "members": 1, "has": {"cpu": 2, "gpu": 0},
        "wants": {"cpu": None, "gpu": 3.0}, **more,
    }  # fmt: skip


def test_the_tree_is_drawn_with_what_each_node_has_and_wants(alloc, told):
    nodes = [
        node("group", "ml", weight=3, part=1.0, level=0.5, has={"cpu": 12.5, "gpu": 4}, tier=-1),
        node("member", "vision", "ml", 1, wants={"cpu": 12500.0, "gpu": 4.0}),
        node("member", "speech", "ml", 1),
        node("member", "guest", best_effort=True, part=0.0, level=None),
    ]
    service = told(decision(9), (200, JSON, POOL), page(nodes, None, last=True))
    done = alloc("tree", "lab")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "NODE                     WEIGHT     PART  LEVEL  CPU (core)     WANTS  GPU  WANTS",
        "lab                           -  100.0 %      -        14.5  no limit    4      6",
        "├── ml/ (tier -1)             3  100.0 %    0.5        12.5  no limit    4      3",
        "│   ├── vision                1   50.0 %   0.25           2    12,500    0      4",
        "│   └── speech                1   50.0 %   0.25           2  no limit    0      3",
        "└── guest (best effort)       1    0.0 %      -           2  no limit    0      3",
        "",
        "By the decision of generation 9 of lab.",
    ]
    assert "/api/v1/runs/r-1/tree/?limit=1000" in [path for _, path, _ in service.asked]


def test_the_budget_that_stops_a_node_is_named_instead_of_its_limit_of_0(alloc, told):
    budget = {
        "budget": "b-1", "resource": "gpu", "amount": "4000.5", "spent": "4012.333333333333",
        "opens_at": "2027-01-01T00:00:00Z",
    }  # fmt: skip
    zero = {"where": {}, "amount": {"gpu": 0}, "has": {"gpu": 0}}
    limits = [{**zero, "budget": None}, {**zero, "budget": budget}]
    hidden = [{**zero, "budget": {**budget, "spent": None}}]
    nodes = [node("group", "ml", limit=limits), node("member", "vision", "ml", 1, limit=hidden)]
    told(decision(9), (200, JSON, POOL), page(nodes, None, last=True))
    lines = alloc("tree", "lab").stdout.splitlines()
    assert lines[2].endswith(
        "  0 of 0 gpu; 4,012.33 of 4,000.5 hours of gpu are spent until 1 January 2027, 00:00 UTC"
    )
    assert lines[3].endswith("  4,000.5 hours of gpu are spent until 1 January 2027, 00:00 UTC")


def test_numbers_of_the_tree_that_a_key_may_not_see_are_dashes(alloc, told):
    hidden = dict.fromkeys(("part", "level", "members", "has", "wants"))
    nodes = [node("group", "ml", **hidden), node("member", "physics", "ml", 1)]
    told(POOLS, decision(9), (200, JSON, POOL), page(nodes, None, last=True))
    lines = alloc("tree").stdout.splitlines()
    assert lines[1].split() == ["lab", "-", "100.0", "%", *"-----"]
    assert lines[2].split() == ["└──", "ml/", "1", *"------"]
    assert lines[3].split() == [
        "└──",
        "physics",
        "1",
        "50.0",
        "%",
        "0.25",
        "2",
        "no",
        "limit",
        "0",
        "3",
    ]


def test_a_part_of_the_pool_is_not_summed_as_the_pool(alloc, told):
    """A key of a group sees its group alone."""
    nodes = [node("group", "ml", part=0.75), node("member", "vision", "ml", 1)]
    told(decision(9), (200, JSON, POOL), page(nodes, None, last=True))
    lines = alloc("tree", "lab").stdout.splitlines()
    assert lines[1].split() == ["lab", "-", "100.0", "%", *"-----"]
    assert lines[2].split()[:3] == ["└──", "ml/", "1"]


def test_the_tree_is_json_or_the_services_csv(alloc, told):
    nodes = [node("group", "ml"), node("member", "physics", "ml", 1)]
    told(decision(9), page(nodes, None, last=True))
    document = json.loads(alloc("tree", "lab", "--json").stdout)
    assert document["tree"] == {"results": nodes, "next": None}
    assert document["decision"]["generation"] == 9
    csv = b"kind,name\ngroup,ml\n"
    service = told(decision(9), (200, {"Content-Type": "text/csv"}, csv))
    assert alloc("tree", "lab", "--csv").stdout == csv.decode()
    assert [path for _, path, _ in service.asked][1].startswith("/api/v1/runs/r-1/tree/?")


def imported(dry_run, *rows, **more):
    counts = dict.fromkeys(("added", "changed", "unchanged", "refused", "skipped"), 0)
    for each in rows:
        counts[each["outcome"]] += 1
    document = {
        "dry_run": dry_run, "written": not dry_run, "generation": 12, "counts": counts,
        "ignored": [], "registered": [], "rows": list(rows), **more,
    }  # fmt: skip
    return 200, JSON, json.dumps(document).encode()


def row_of(line, name, outcome, detail="", *errors):
    found = [
        {"pointer": "/weight", "code": "weight.not_positive", "detail": each} for each in errors
    ]
    return {"line": line, "item": None, "name": name, "owner": None, "outcome": outcome,
            "detail": detail, "errors": found}  # fmt: skip


def test_a_tree_is_imported_from_a_file(alloc, told, tmp_path):
    tree = tmp_path / "tree.csv"
    tree.write_bytes("\ufeffkind,slug,name\ngroup,ml,Überblick\n".encode())
    service = told(imported(False, row_of(2, "ml", "added"), registered=["vision"]))
    done = alloc("import", "groups", str(tree), "lab", "--register-tenants")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["Change 12: 1 added.", "Tenants registered: vision."]
    ((method, path, _),) = service.asked
    assert (method, path) == ("POST", "/api/v1/pools/lab/imports/groups/")
    assert json.loads(service.bodies[0]) == {
        "content": "kind,slug,name\ngroup,ml,Überblick\n", "format": "csv", "dry_run": False,
        "skip_refused": False, "register_tenants": True,
    }  # fmt: skip


def test_a_dry_run_of_sacctmgr_lists_every_row_and_ends_with_1_if_any_is_refused(alloc, told):
    rows = [
        row_of(2, "root", "skipped", "The root account, which is the pool itself."),
        row_of(3, "ml", "added"),
        row_of(4, "vision", "refused", "", "The weight must be greater than 0."),
    ]
    service = told(POOLS, imported(True, *rows))
    arguments = ("--format", "sacctmgr", "--dry-run", "--tenant-label", "User")
    done = alloc("import", "groups", "-", *arguments, typed="Account|Share\n")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "LINE  OUTCOME  NAME    DETAIL",
        "   2  skipped  root    The root account, which is the pool itself.",
        "   3  added    ml",
        "   4  refused  vision  The weight must be greater than 0.",
        "",
        "Nothing was written: 1 added, 1 refused, 1 skipped.",
    ]
    assert done.stderr.splitlines() == ["alloc: 1 row refused."]
    sent = json.loads(service.bodies[1])
    assert (sent["content"], sent["format"], sent["tenant_label"], sent["dry_run"]) == (
        "Account|Share\n", "sacctmgr", "User", True,
    )  # fmt: skip


def test_an_import_is_json_for_scripts(alloc, told):
    told(imported(True, row_of(2, "ml", "unchanged")))
    done = alloc("import", "groups", "-", "lab", "--dry-run", "--json", typed="slug\nml\n")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["counts"]["unchanged"] == 1


def test_a_file_that_is_not_there_or_not_utf8_is_wrong_usage(alloc, told, tmp_path):
    service = told()
    assert alloc("import", "groups", str(tmp_path / "none.csv"), "lab").exit_code == 2
    (tmp_path / "latin.csv").write_bytes(b"slug\n\xfc\n")
    done = alloc("import", "groups", str(tmp_path / "latin.csv"), "lab")
    assert done.exit_code == 2
    assert "utf-8" in done.stderr
    assert service.asked == []
