"""Keys that are bound to a group: they see its subtree, change weights below it, and nothing else."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from allocator_service.billing.budgets import BudgetDraft, BudgetSettings, budget_create
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Unacceptable
from allocator_service.core.models import AuditEntry
from allocator_service.pools.models import Group
from allocator_service.tenants.models import ApiKey
from allocator_service.tenants.services import api_key_create, api_key_rotate
from tests import factories
from tests.api.v1.test_conventions import code
from tests.api.v1.test_isolation import answer
from tests.api.v1.test_scopes import GROUP, MATRIX, METHODS, path_of

pytestmark = pytest.mark.django_db(transaction=True)

LAB = "/api/v1/pools/lab"
UNKNOWN = "01a1fa35-2b84-7418-8537-e4019453fdf6"


@pytest.fixture
def tree(world):
    """science > ml, and zoology. ada is in ml and bob in zoology; `science` in `other` has eve."""
    lab = world.lab
    world.science = factories.group(lab, "science")
    world.ml = factories.group(lab, "ml", "science", weight=2)
    world.zoology = factories.group(lab, "zoology")
    factories.member(lab, world.ada, "ml")
    factories.member(lab, world.bob, "zoology")
    factories.group(world.other, "science")
    factories.member(world.other, world.eve, "science")
    world.run, world.other_run = factories.decision(lab), factories.decision(world.other)
    world.manager = factories.client(GROUP, group=world.science)
    return world


def names(response, field):
    assert response.status_code == 200, response.content
    return [row[field] for row in response.json()["results"]]


def test_a_key_sees_its_subtree(tree):
    get = tree.manager.get
    assert get(f"{LAB}/").json()["slug"] == "lab"
    assert names(get(f"{LAB}/members/"), "tenant") == ["ada"]
    assert names(get(f"{LAB}/groups/"), "slug") == ["ml", "science"]
    assert names(get(f"{LAB}/workloads/"), "tenant") == ["ada"]
    assert names(get(f"{LAB}/allocations/"), "tenant") == ["ada"]
    assert names(get(f"{LAB}/runs/"), "id") == [str(tree.run.pk)]
    assert get(f"{LAB}/members/ada/").json()["group"] == "ml"
    assert get(f"{LAB}/workloads/{tree.ada_workload.pk}/").status_code == 200
    run = f"/api/v1/runs/{tree.run.pk}"
    assert names(get(f"{run}/allocations/?by=tenant"), "tenant") == ["ada"]
    assert get(f"{run}/").json()["summary"] is None
    decision = get(f"{LAB}/decision/").json()
    assert (decision["run"]["id"], decision["run"]["summary"]) == (str(tree.run.pk), None)
    own = get(f"{LAB}/entitlements/").json()
    assert own["group"]["group"] == "science"
    assert [row["group"] for row in own["groups"]] == ["ml"]
    assert get(f"{LAB}/entitlements/?group=ml").json()["tenants"][0]["tenant"] == "ada"


def test_what_a_tenant_withdrew_before_it_entered_is_absent(tree):
    path = f"{LAB}/workloads/{tree.bob_workload.pk}/"
    operator = factories.client()
    etag = operator.get(path)["ETag"]
    assert operator.delete(path, If_Match=etag).status_code == 204
    factories.member(tree.lab, tree.bob, "ml")
    assert names(tree.manager.get(f"{LAB}/members/"), "tenant") == ["ada", "bob"]
    assert names(operator.get(f"{LAB}/workloads/?state=withdrawn"), "tenant") == ["bob"]
    assert names(tree.manager.get(f"{LAB}/workloads/?state=withdrawn"), "tenant") == []
    assert code(tree.manager.get(path)) == (404, "workload.not_found")


def test_an_explanation_is_the_one_that_the_tenant_gets(tree):
    path = f"/api/v1/runs/{tree.run.pk}/explanation/ada/"
    explained, own = tree.manager.get(path), tree.as_ada.get(path)
    assert explained.status_code == 200
    assert explained.json() == own.json()
    inner = factories.client(GROUP, group=tree.ml).get(path)
    assert own.json()["groups"] == ["ml", "science"]
    assert inner.json()["groups"] == ["ml"]
    assert b"science" in own.content
    assert b"science" not in inner.content
    assert {**inner.json(), "groups": [], "sentence": ""} == {
        **own.json(), "groups": [], "sentence": "",
    }  # fmt: skip


def test_reports_are_of_the_subtree(tree):
    for report in ("sharing-degree", "lending", "billing"):
        own = tree.manager.get(f"{LAB}/reports/{report}/").json()
        assert own["group"]["group"] == "science", report
        inner = tree.manager.get(f"{LAB}/reports/{report}/?group=ml").json()
        assert inner["group"]["group"] == "ml", report
    assert code(tree.manager.get(f"{LAB}/reports/utilization/")) == (404, "report.not_found")
    refused = tree.manager.get(f"{LAB}/reports/lending/?tenant=ada")
    assert code(refused) == (400, "report.one_of")


FOREIGN = {
    "/api/v1/pools/{pool}/": ("GET",),
    "/api/v1/pools/{pool}/members/": ("GET",),
    "/api/v1/pools/{pool}/groups/": ("GET",),
    "/api/v1/pools/{pool}/groups/science/": ("GET",),
    "/api/v1/pools/{pool}/workloads/": ("GET",),
    "/api/v1/pools/{pool}/runs/": ("GET",),
    "/api/v1/pools/{pool}/decision/": ("GET",),
    "/api/v1/pools/{pool}/allocations/": ("GET",),
    "/api/v1/pools/{pool}/entitlements/": ("GET",),
    "/api/v1/pools/{pool}/statements/": ("GET",),
    "/api/v1/pools/{pool}/groups/science/statements/": ("GET",),
    "/api/v1/pools/{pool}/budgets/": ("GET", "POST"),
    "/api/v1/pools/{pool}/reports/sharing-degree/": ("GET",),
    "/api/v1/pools/{pool}/reports/lending/": ("GET",),
    "/api/v1/pools/{pool}/reports/utilization/": ("GET",),
    "/api/v1/pools/{pool}/reports/billing/": ("GET",),
    "/api/v1/pools/lab/members/{tenant}/": ("GET", "PUT"),
    "/api/v1/pools/lab/groups/{group}/": ("GET", "PATCH"),
    "/api/v1/pools/lab/groups/{group}/history/": ("GET",),
    "/api/v1/pools/lab/groups/{group}/statements/": ("GET",),
    "/api/v1/pools/lab/groups/{group}/statements/2026-11/": ("GET",),
    "/api/v1/pools/lab/statements/2026-11/{tenant}/": ("GET",),
    "/api/v1/pools/lab/entitlements/?group={group}": ("GET",),
    "/api/v1/pools/lab/reports/sharing-degree/?group={group}": ("GET",),
    "/api/v1/pools/lab/reports/lending/?group={group}": ("GET",),
    "/api/v1/pools/lab/reports/utilization/?group={group}": ("GET",),
    "/api/v1/pools/lab/reports/billing/?group={group}": ("GET",),
    "/api/v1/pools/lab/workloads/{workload}/": ("GET",),
    "/api/v1/pools/lab/budgets/{budget}/": ("GET", "PATCH", "DELETE"),
    "/api/v1/pools/lab/budgets/{budget}/clusters/": ("GET",),
    "/api/v1/pools/lab/budgets/{budget}/history/": ("GET",),
    "/api/v1/runs/{run}/": ("GET",),
    "/api/v1/runs/{run}/allocations/": ("GET",),
    "/api/v1/runs/{run}/tree/": ("GET",),
    "/api/v1/runs/{own_run}/explanation/{tenant}/": ("GET",),
}


@pytest.mark.parametrize("transparent", [False, True])
def test_what_is_beside_the_group_answers_as_what_does_not_exist(tree, transparent):
    tree.lab.transparent = transparent
    tree.lab.save()
    draft = BudgetDraft(tree.zoology, "cpu", BudgetSettings(Decimal(1), [100]))
    world = {
        "pool": "other", "tenant": "bob", "group": "zoology", "run": tree.other_run.pk,
        "workload": tree.bob_workload.pk, "own_run": tree.run.pk,
        "budget": budget_create(pool=tree.lab, draft=draft, now=utc_now()).pk,
    }  # fmt: skip
    unknown = {
        "pool": "nowhere", "tenant": "nobody", "group": "none", "run": UNKNOWN,
        "workload": UNKNOWN, "own_run": tree.run.pk, "budget": UNKNOWN,
    }  # fmt: skip
    for template, methods in FOREIGN.items():
        for method in methods:
            body = {"weight": 2} if method != "GET" else None
            headers = {"If_Match": '"v1"'} if method != "GET" else {}
            answers = [
                answer(tree.manager, method, template.format(**named), body, **headers)
                for named in (world, unknown)
            ]
            assert answers[0][0] == 404, (method, template, answers[0])
            assert answers[0] == answers[1], (method, template)


def test_every_route_of_the_matrix_that_a_group_key_has_is_in_the_test_of_two_worlds():
    having = {
        (path_of(route), method)
        for route, methods in MATRIX.items()
        for method in METHODS
        if GROUP in methods.get(method, ())
    }
    names_of = {
        "pool": "nowhere", "tenant": "nobody", "group": "none", "workload": "0", "run": "0",
        "own_run": "0", "budget": "0",
    }  # fmt: skip

    def steady(path):
        zero = "00000000-0000-7000-8000-000000000000"
        path = path.partition("?")[0].replace("/lab/", "/nowhere/").replace("/science/", "/none/")
        path = path.replace("/2026-11/", "/<str:month>/").replace("/0/", f"/{zero}/")
        return path.replace("<str:month>", zero)

    tried = {
        (steady(template.format(**names_of)), method)
        for template, methods in FOREIGN.items()
        for method in methods
    }
    # The list of pools names none in its path: a test of its own has what it shows.
    assert having - {("/api/v1/pools/", "GET")} == tried


def test_the_list_of_pools_has_its_own_alone_and_changes_with_no_other(tree, operator):
    before = tree.manager.get("/api/v1/pools/")
    assert names(before, "slug") == ["lab"]
    assert before.json()["results"] == [tree.manager.get(f"{LAB}/").json()]
    factories.pool("third")
    factories.member(tree.other, tree.ada, "science")
    after = tree.manager.get("/api/v1/pools/")
    assert (after.content, after["ETag"]) == (before.content, before["ETag"])
    assert names(tree.manager.get("/api/v1/pools/?limit=1"), "slug") == ["lab"]


@pytest.mark.parametrize("transparent", [False, True])
def test_the_tree_of_a_run_begins_at_the_group(tree, operator, transparent):
    tree.lab.transparent = transparent
    tree.lab.save()
    path = f"/api/v1/runs/{tree.run.pk}/tree/"
    whole = {(row["kind"], row["name"]): row for row in operator.get(path).json()["results"]}
    shown = tree.manager.get(path).json()["results"]
    assert [(row["name"], row["parent"], row["depth"]) for row in shown] == [
        ("science", None, 0), ("ml", "science", 1), ("ada", "ml", 2),
    ]  # fmt: skip
    assert shown == [whole[row["kind"], row["name"]] for row in shown]
    inner = factories.client(GROUP, group=tree.ml).get(path).json()["results"]
    assert [(row["name"], row["parent"], row["depth"]) for row in inner] == [
        ("ml", None, 0), ("ada", "ml", 1),
    ]  # fmt: skip
    position = {"parent": None, "depth": 0}
    assert [row | position for row in inner] == [row | position for row in shown[1:]]
    # A tenant knows the same numbers of itself.
    own = next(row for row in tree.as_ada.get(path).json()["results"] if row["name"] == "ada")
    assert own | position == inner[-1] | position
    assert tree.manager.get(f"{path}?format=csv").content.count(b"\n") == 4


@pytest.mark.parametrize("transparent", [False, True])
def test_what_others_do_changes_no_byte_of_the_tree_that_a_group_sees(tree, transparent):
    """Answers do not depend on the groups, amounts and tasks of a neighbour."""
    lab = tree.lab
    lab.transparent, lab.weights = transparent, "explicit"
    lab.save()
    factories.member(lab, tree.bob, "zoology", weight=1)
    tree.ada_workload.__class__.objects.filter(pk=tree.ada_workload.pk).update(tasks=1)

    def seen():
        return tree.manager.get(f"/api/v1/runs/{factories.decision(lab).pk}/tree/").content

    before = seen()
    factories.group(lab, "insects", "zoology", weight=7)
    factories.member(lab, tree.bob, "insects")
    factories.limit(lab, "zoology", {"cpu": 3})
    factories.workload(lab, "more", 1, 2, tree.bob)
    assert seen() == before


def test_an_older_group_of_the_slug_is_not_in_the_tree(tree, operator):
    """The key is of another group than the run had under this slug."""
    factories.member(tree.lab, tree.bob, None)
    run = tree.run
    assert operator.delete(f"{LAB}/groups/zoology/", If_Match='"v1"').status_code == 204
    again = factories.client(GROUP, group=factories.group(tree.lab, "zoology"))
    assert again.get(f"/api/v1/runs/{run.pk}/tree/").json()["results"] == []
    # A retired group that was below its own, and one beside it that has the slug now.
    factories.member(tree.lab, tree.ada, "science")
    assert operator.delete(f"{LAB}/groups/ml/", If_Match='"v1"').status_code == 204
    factories.group(tree.lab, "ml")
    factories.member(tree.lab, tree.bob, "ml")
    path = f"/api/v1/runs/{factories.decision(tree.lab).pk}/tree/"
    assert names(tree.manager.get(path), "name") == ["science", "ada"]


@pytest.mark.parametrize("transparent", [False, True])
def test_no_answer_names_what_is_beside_the_group(tree, transparent):
    """Neither tenants nor groups beside it, nor the group above it."""
    tree.lab.transparent = transparent
    tree.lab.save()
    manager = factories.client(GROUP, group=tree.ml)
    paths = ["", *(f"{part}/" for part in (
        "members", "groups", "groups/ml", "groups/ml/history", "workloads", "runs", "decision",
        "allocations", "entitlements", "statements", "groups/ml/statements",
        "reports/sharing-degree", "reports/lending", "reports/billing",
    ))]  # fmt: skip
    addresses = [f"{LAB}/{path}" for path in paths]
    for path in [*addresses, "/api/v1/pools/", f"/api/v1/runs/{tree.run.pk}/tree/"]:
        shown = manager.get(path)
        assert shown.status_code == 200, path
        for hidden in (b"bob", b"zoology", b"science", b"simulation"):
            assert hidden not in shown.content, (path, hidden)


def test_a_limit_of_the_group_above_stops_a_workload_without_a_name(tree, operator):
    factories.limit(tree.lab, "science", {"cpu": 1})
    run = factories.decision(tree.lab)
    row = operator.get(f"{LAB}/allocations/").json()["results"][0]
    assert (row["tenant"], row["limited_by"]) == ("ada", "limit:group:science")
    outer, inner = tree.manager, factories.client(GROUP, group=tree.ml)
    explanation = f"/api/v1/runs/{run.pk}/explanation/ada/"
    for path in (f"{LAB}/allocations/", explanation, f"/api/v1/runs/{run.pk}/allocations/"):
        assert b"limit:group:science" in outer.get(path).content
        assert re.search(rb"limit:group:group-\w{12}", inner.get(path).content)
        assert b"science" not in inner.get(path).content
    explained = inner.get(explanation).json()
    assert "stopped at the limit of a group above." in explained["sentence"]
    # Neither is its amount.
    assert "a limit of" not in str(explained["counterfactuals"])
    assert "a limit of" in str(outer.get(explanation).json()["counterfactuals"])


def test_a_manager_changes_weights_and_tiers_below_its_group(tree):
    changed = tree.manager.patch(f"{LAB}/groups/ml/", {"weight": 5, "tier": 1}, If_Match='"v1"')
    assert changed.status_code == 200, changed.content
    assert (changed.json()["weight"], changed.json()["tier"]) == (5, 1)
    present = tree.manager.get(f"{LAB}/members/ada/")
    put = {"weight": 3, "tier": 2, "group": "ml"}
    member = tree.manager.put(f"{LAB}/members/ada/", put, If_Match=present["ETag"])
    assert member.status_code == 200, member.content
    assert (member.json()["weight"], member.json()["tier"]) == (3, 2)
    for action in ("group.update", "member.update"):
        entry = AuditEntry.objects.filter(action=action).latest("pk")
        assert entry.actor.startswith("key ")


def test_a_manager_sets_limits_below_its_group(tree):
    limit = [{"where": {}, "amount": {"cpu": 2}, "from": None, "to": "2027-01-01T00:00:00Z"}]
    group = tree.manager.patch(f"{LAB}/groups/ml/", {"limit": limit}, If_Match='"v1"')
    assert (group.status_code, group.json()["limit"]) == (200, limit)
    tag = tree.manager.get(f"{LAB}/members/ada/")["ETag"]
    put = {"group": "ml", "limit": limit}
    member = tree.manager.put(f"{LAB}/members/ada/", put, If_Match=tag)
    assert (member.status_code, member.json()["limit"]) == (200, limit)


def test_a_manager_changes_neither_its_own_group_nor_anything_else(tree):
    refused = [
        tree.manager.patch(f"{LAB}/groups/science/", {"limit": []}, If_Match='"v1"'),
        tree.manager.patch(f"{LAB}/groups/ml/", {"limit": [], "name": "Mine"}, If_Match='"v1"'),
        tree.manager.patch(f"{LAB}/groups/science/", {"weight": 9}, If_Match='"v1"'),
        tree.manager.patch(f"{LAB}/groups/ml/", {"parent": None}, If_Match='"v1"'),
        tree.manager.patch(f"{LAB}/groups/ml/", {"name": "Mine"}, If_Match='"v1"'),
    ]
    tag = tree.manager.get(f"{LAB}/members/ada/")["ETag"]
    bodies = (
        {"weight": 2},  # which would move it to the pool
        {"weight": 2, "group": "science"},
        {"weight": 2, "group": "zoology"},
        {"weight": 2, "group": "ml", "best_effort": True},
    )
    refused += [tree.manager.put(f"{LAB}/members/ada/", body, If_Match=tag) for body in bodies]
    assert {code(each) for each in refused} == {(403, "auth.group")}
    for method, path in (
        ("POST", "groups/"), ("DELETE", "groups/ml/"), ("DELETE", "members/ada/"),
        ("POST", "workloads/"), ("POST", "statements/"),
    ):  # fmt: skip
        assert code(tree.manager.send(method, f"{LAB}/{path}", {})) == (403, "auth.scope")
    assert {group.version for group in Group.objects.all()} == {1}


def test_a_manager_does_not_move_the_share_of_its_own_group(tree, operator):
    before = operator.get(f"{LAB}/groups/science/").json()
    tree.manager.patch(f"{LAB}/groups/ml/", {"weight": 50}, If_Match='"v1"')
    assert operator.get(f"{LAB}/groups/science/").json() == before


def test_a_key_that_reads_sees_the_same_and_changes_nothing(tree):
    """Every route of the matrix: what a manager's key gets by GET, and 403 for what it writes."""
    reader = factories.client(GROUP, group=tree.science, access="read")
    assert code(reader.patch(f"{LAB}/groups/ml/", {"weight": 5}, If_Match='"v1"')) == (
        403, "auth.read_only",
    )  # fmt: skip
    tag = reader.get(f"{LAB}/members/ada/")["ETag"]
    put = reader.put(f"{LAB}/members/ada/", {"weight": 3, "group": "ml"}, If_Match=tag)
    assert code(put) == (403, "auth.read_only")
    assert tree.manager.get(f"{LAB}/groups/ml/").json()["version"] == 1
    for template, methods in FOREIGN.items():
        if "GET" in methods:
            names = {"pool": "lab", "tenant": "ada", "group": "ml", "run": tree.run.pk,
                     "workload": tree.ada_workload.pk, "own_run": tree.run.pk,
                     "budget": UNKNOWN}  # fmt: skip
            path = template.format(**names)
            assert answer(reader, "GET", path)[0] == answer(tree.manager, "GET", path)[0], path
    for route, methods in MATRIX.items():
        for method in METHODS:
            if method not in ("GET", *(each for each in METHODS if each not in methods)):
                refused = reader.send(method, path_of(route.replace("<str:pool>", "lab")), {})
                having = GROUP in methods[method]
                assert code(refused) == (403, "auth.read_only" if having else "auth.scope"), route


def test_the_key_follows_a_group_that_is_moved(tree, operator):
    tag = operator.get(f"{LAB}/groups/science/")["ETag"]
    moved = operator.patch(f"{LAB}/groups/science/", {"parent": "zoology"}, If_Match=tag)
    assert moved.status_code == 200
    assert names(tree.manager.get(f"{LAB}/groups/"), "slug") == ["ml", "science"]
    assert names(tree.manager.get(f"{LAB}/members/"), "tenant") == ["ada"]
    assert b"zoology" not in tree.manager.get(f"{LAB}/groups/science/").content
    outer = factories.client(GROUP, group=tree.zoology)
    assert names(outer.get(f"{LAB}/members/"), "tenant") == ["ada", "bob"]


def test_what_leaves_the_group_is_seen_no_more_and_what_enters_is_seen_from_then_on(tree):
    factories.member(tree.lab, tree.ada, "zoology")
    factories.member(tree.lab, tree.bob, "science")
    assert names(tree.manager.get(f"{LAB}/members/"), "tenant") == ["bob"]
    run = f"/api/v1/runs/{tree.run.pk}"
    # In the run that was decided before, ada was below the group and bob was not.
    assert names(tree.manager.get(f"{run}/allocations/"), "tenant") == ["ada"]
    assert tree.manager.get(f"{run}/explanation/ada/").status_code == 200
    assert tree.manager.get(f"{run}/explanation/bob/").status_code == 404
    later = factories.decision(tree.lab)
    assert names(tree.manager.get(f"/api/v1/runs/{later.pk}/allocations/"), "tenant") == ["bob"]


def test_the_key_of_a_retired_group_ends(tree, operator):
    manager = factories.client(GROUP, group=tree.ml)
    assert manager.get(f"{LAB}/groups/").status_code == 200
    factories.member(tree.lab, tree.ada, "science")
    retired = operator.delete(f"{LAB}/groups/ml/", If_Match='"v1"')
    assert retired.status_code == 204
    assert code(manager.get(f"{LAB}/groups/")) == (401, "auth.revoked")
    entry = AuditEntry.objects.get(action="group.retire")
    assert entry.after["keys_revoked"] == 1
    factories.group(tree.lab, "ml", "science")  # another group of the slug gives it back to no key
    assert code(manager.get(f"{LAB}/groups/")) == (401, "auth.revoked")


def test_a_key_names_its_group_and_the_pool_of_it(tree):
    now = utc_now()
    more = {"name": "x", "tenant": None, "now": now, "expires_at": now + timedelta(days=1)}
    for wrong in (
        {"scope": "group", "pool": "lab"},
        {"scope": "group", "group": tree.ml.pk},
        {"scope": "operator", "pool": "lab", "group": tree.ml.pk},
        {"scope": "agent", "pool": "lab", "group": tree.ml.pk},
    ):
        with pytest.raises(Unacceptable) as refused:
            api_key_create(**more | wrong)
        assert refused.value.code == "api_key.binding"
    api_key_create(scope="group", pool="lab", group=tree.ml.pk, **more | {"name": "ml"})
    rotated = api_key_rotate(name="ml", expires_at=now + timedelta(days=2), now=now)
    assert (rotated.key.group, rotated.key.pool) == (tree.ml.pk, "lab")
    api_key_create(
        scope="group", pool="lab", group=tree.ml.pk, access="read", **more | {"name": "r"}
    )
    rotated = api_key_rotate(name="r", expires_at=now + timedelta(days=2), now=now)
    assert rotated.key.access == "read"
    with pytest.raises(Unacceptable) as refused:
        api_key_create(scope="billing", access="read", **more | {"name": "bill"})
    assert refused.value.code == "api_key.access"


def test_a_key_is_issued_on_the_command_line(tree, capsys):
    create = ["apikey", "create", "--scope", "group", "--name", "ml-manager", "--pool", "lab"]
    call_command(*create, "--group", "ml")
    text = capsys.readouterr().out.strip()
    assert names(factories.Client(text).get(f"{LAB}/groups/"), "slug") == ["ml"]
    call_command("apikey", "list")
    assert "\tgroup\tlab/ml\tlive" in capsys.readouterr().out
    read = [*create[:5], "ml-reader", *create[6:], "--group", "ml", "--access", "read"]
    call_command(*read)
    capsys.readouterr()
    call_command("apikey", "list")
    assert "\tgroup\tlab/ml (read)\tlive" in capsys.readouterr().out
    with pytest.raises(CommandError, match="has no group none"):
        call_command(*create, "--group", "none")
    with pytest.raises(CommandError):
        call_command(*create)
    assert ApiKey.objects.filter(name="ml-manager").count() == 1


def test_the_parent_of_its_own_group_cannot_be_guessed(tree):
    manager = factories.client(GROUP, group=tree.ml)
    for guess in ("science", "zoology", "none"):
        assert names(manager.get(f"{LAB}/groups/?parent={guess}"), "slug") == [], guess
    assert names(tree.manager.get(f"{LAB}/groups/?parent=science"), "slug") == ["ml"]


@pytest.mark.parametrize("name", ["%00", "a%00b", "ADA", "%F0%9F%92%A9"])
def test_an_explanation_of_no_slug_answers_as_one_of_an_unknown_tenant(tree, name):
    refused = tree.manager.get(f"/api/v1/runs/{tree.run.pk}/explanation/{name}/")
    assert code(refused) == (404, "tenant.not_found")


def test_reports_name_no_children_from_before_a_group_entered(tree, operator):
    lab = tree.lab
    lab.transparent = True
    lab.save()
    factories.group(lab, "physics")
    factories.group(lab, "optics", "physics")
    factories.member(lab, tree.bob, "physics")
    operator.delete(f"{LAB}/groups/optics/", If_Match='"v1"')
    factories.member(lab, tree.bob, "zoology")
    moved = operator.patch(f"{LAB}/groups/physics/", {"parent": "science"}, If_Match='"v1"')
    assert moved.status_code == 200, moved.content
    factories.group(lab, "lasers", "physics")
    for report in ("sharing-degree", "lending", "utilization"):
        path = f"{LAB}/reports/{report}/?group=physics"
        whole = operator.get(path).content
        assert b"bob" in whole, report
        assert b"optics" in whole, report
        own = tree.manager.get(path).content
        assert b"lasers" in own, report
        assert b"bob" not in own, report
        assert b"optics" not in own, report
