"""Tenants and members of pools."""

from decimal import Decimal

import pytest

from allocator_service.core.clock import utc_now
from allocator_service.core.models import AuditEntry
from allocator_service.pools.models import Membership, MembershipTerms
from allocator_service.pools.server_services import server_retire
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.services import workload_withdraw
from tests import factories
from tests.api.v1.test_conventions import code

MEMBERS = "/api/v1/pools/lab/members/"


def test_a_tenant_is_registered_with_its_address_and_version(operator):
    response = operator.post("/api/v1/tenants/", {"slug": "ada", "name": "Ada Lab"})
    assert response.status_code == 201
    assert response["Location"] == "/api/v1/tenants/ada/"
    assert response["ETag"] == '"v1"'
    document = response.json()
    assert document == {
        "slug": "ada",
        "name": "Ada Lab",
        "version": 1,
        "created_at": document["created_at"],
    }
    assert document["created_at"].endswith("Z")
    assert operator.get("/api/v1/tenants/ada/").json() == document


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ([{"slug": "b", "name": "B"}, 7], (422, "field.type")),
        ([{"slug": "b", "name": "B"}, {"slug": "a", "name": None}], (422, "field.type")),
        ({"slug": "a"}, (422, "field.required")),
        ({"slug": "A", "name": "x"}, (422, "slug.syntax")),
        ({"slug": 1, "name": "x"}, (422, "field.type")),
        ({"slug": "a", "name": ""}, (422, "field.blank")),
        ({"slug": "a", "name": "x" * 201}, (422, "field.length")),
        ({"slug": "a", "name": " x"}, (422, "field.text")),
        ({"slug": "a", "name": None}, (422, "field.type")),
        ({"slug": "a", "name": "x", "version": 7}, (400, "field.unknown")),
    ],
)
def test_a_bad_tenant_is_refused_and_not_made(body, expected, operator):
    assert code(operator.post("/api/v1/tenants/", body)) == expected
    assert not Tenant.objects.exists()


def test_names_may_be_in_any_script(operator):
    name = "Größe 漢字 \U0001f600 عربي"
    assert operator.post("/api/v1/tenants/", {"slug": "a", "name": name}).json()["name"] == name


def test_a_slug_is_taken_for_ever(operator):
    body = {"slug": "ada", "name": "Ada"}
    assert operator.post("/api/v1/tenants/", body).status_code == 201
    assert code(operator.post("/api/v1/tenants/", body)) == (409, "tenant.exists")
    assert operator.delete("/api/v1/tenants/ada/", If_Match='"v1"').status_code == 204
    assert code(operator.get("/api/v1/tenants/ada/")) == (404, "tenant.not_found")
    assert code(operator.post("/api/v1/tenants/", body)) == (409, "tenant.exists")


def test_many_tenants_are_registered_at_once_in_the_order_sent(operator):
    sent = [{"slug": f"t{n}", "name": f"Group {n}"} for n in (3, 1, 2)]
    response = operator.post("/api/v1/tenants/", sent, Idempotency_Key="once")
    assert response.status_code == 201
    assert response.json() == {"created": 3, "first": "t3", "last": "t2"}
    again = operator.post("/api/v1/tenants/", sent, Idempotency_Key="once")
    assert (again.json(), again["Idempotency-Replayed"]) == (response.json(), "true")
    assert Tenant.objects.count() == 3
    made = AuditEntry.objects.filter(action="tenant.create")
    assert sorted(made.values_list("object_name", flat=True)) == ["t1", "t2", "t3"]


def test_many_tenants_come_as_csv_too(operator):
    csv = b"slug,name\nalpha,Alpha group\nbeta,Beta group\n"
    response = operator.send("POST", "/api/v1/tenants/", csv, content_type="text/csv")
    assert response.json() == {"created": 2, "first": "alpha", "last": "beta"}
    assert Tenant.objects.get(slug="beta").name == "Beta group"
    again = operator.send("POST", "/api/v1/tenants/", csv, content_type="text/csv")
    assert code(again) == (409, "tenant.exists")
    assert again.json()["errors"][0]["detail"].startswith("Row 1: ")


def test_one_taken_slug_keeps_all_tenants_of_a_request_out(operator):
    factories.tenant("taken")
    sent = [{"slug": slug, "name": "x"} for slug in ("new", "taken", "twice", "twice")]
    response = operator.post("/api/v1/tenants/", sent)
    assert code(response) == (409, "tenant.exists")
    pointers = [error["pointer"] for error in response.json()["errors"]]
    assert pointers == ["/1/slug", "/3/slug"]
    assert Tenant.objects.count() == 1


def test_more_tenants_than_one_request_takes_are_refused(operator):
    sent = [{"slug": f"t{n}", "name": "x"} for n in range(10_001)]
    assert code(operator.post("/api/v1/tenants/", sent)) == (413, "tenants.too_many")
    assert not Tenant.objects.exists()


def test_a_patch_changes_the_name_and_nothing_else(operator):
    factories.tenant("ada")
    path = "/api/v1/tenants/ada/"
    immutable = operator.patch(path, {"slug": "b"}, If_Match='"v1"')
    assert code(immutable) == (422, "field.immutable")
    assert immutable.json()["errors"][0]["pointer"] == "/slug"
    assert code(operator.patch(path, {"version": 5}, If_Match='"v1"')) == (400, "field.unknown")
    assert code(operator.patch(path, {"name": None}, If_Match='"v1"')) == (422, "field.required")
    assert Tenant.objects.get().name == "Ada"
    same = operator.patch(path, {"slug": "ada", "name": "B"}, If_Match='"v1"')
    assert (same.status_code, same.json()["name"], same["ETag"]) == (200, "B", '"v2"')


@pytest.mark.parametrize("content_type", ["application/json", "application/merge-patch+json"])
def test_a_patch_is_sent_in_either_type(content_type, operator):
    factories.tenant("ada")
    response = operator.send(
        "PATCH", "/api/v1/tenants/ada/", {"name": "B"}, content_type, If_Match='"v1"'
    )
    assert response.json()["name"] == "B"


def test_a_tenant_in_use_is_not_retired(world, operator):
    response = operator.delete("/api/v1/tenants/ada/", If_Match='"v1"')
    assert code(response) == (409, "in_use")
    assert world.as_ada.get("/api/v1/tenants/ada/").status_code == 200


def test_an_operator_admits_a_tenant_by_put(operator):
    factories.pool("lab")
    factories.tenant("ada")
    response = operator.put(f"{MEMBERS}ada/", {"weight": 2.5})
    assert response.status_code == 201
    assert response["Location"] == f"{MEMBERS}ada/"
    assert response["ETag"] == '"v1"'
    assert response["Pool-Generation"] == "2"
    document = response.json()
    assert (document["tenant"], document["weight"], document["best_effort"]) == ("ada", 2.5, False)
    assert operator.get(f"{MEMBERS}ada/").json() == document


def test_what_a_put_leaves_out_is_the_default(operator):
    factories.pool("lab")
    factories.tenant("ada")
    operator.put(f"{MEMBERS}ada/", {"weight": 3, "best_effort": True})
    assert code(operator.put(f"{MEMBERS}ada/", {})) == (428, "version.required")
    assert code(operator.put(f"{MEMBERS}ada/", {}, If_Match='"v2"')) == (412, "version.stale")
    replaced = operator.put(f"{MEMBERS}ada/", {}, If_Match='"v1"')
    assert (replaced.status_code, replaced["ETag"], "Location" in replaced) == (200, '"v2"', False)
    assert (replaced.json()["weight"], replaced.json()["best_effort"]) == (1, False)
    assert list(MembershipTerms.objects.values_list("weight", flat=True)) == [3, 1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"weight": 0}, (422, "weight.not_positive")),
        ({"weight": -1}, (422, "weight.not_positive")),
        ({"weight": 1e12}, (422, "weight.not_positive")),
        ({"weight": 10**39}, (422, "weight.not_positive")),
        ({"weight": 1e-13}, (422, "weight.not_positive")),
        ({"weight": "1"}, (422, "field.type")),
        ({"weight": None}, (422, "field.type")),
        ({"weight": True}, (422, "field.type")),
        ({"best_effort": 1}, (422, "field.type")),
        ({"weights": 1}, (400, "field.unknown")),
        (b'{"weight": NaN}', (400, "json.number")),
        (b'{"weight": 1e400}', (400, "json.number")),
    ],
)
def test_bad_terms_are_refused_and_nobody_is_admitted(body, expected, operator):
    factories.pool("lab")
    factories.tenant("ada")
    assert code(operator.put(f"{MEMBERS}ada/", body)) == expected
    assert not Membership.objects.exists()


def test_weights_are_kept_to_twelve_digits(operator):
    factories.pool("lab")
    factories.tenant("ada")
    response = operator.put(f"{MEMBERS}ada/", b'{"weight": 0.1234567890123456789}')
    assert response.json()["weight"] == 0.123456789012
    assert MembershipTerms.objects.get().weight == Decimal("0.123456789012")


def test_an_unknown_tenant_or_pool_is_404(operator):
    factories.pool("lab")
    assert code(operator.put(f"{MEMBERS}nobody/", {})) == (404, "tenant.not_found")
    assert code(operator.get(f"{MEMBERS}nobody/")) == (404, "member.not_found")
    assert code(operator.put("/api/v1/pools/x/members/y/", {})) == (404, "pool.not_found")


def test_replacing_who_is_no_member_is_412(operator):
    factories.pool("lab")
    factories.tenant("ada")
    assert code(operator.put(f"{MEMBERS}ada/", {}, If_Match='"v1"')) == (412, "version.stale")
    assert not Membership.objects.exists()


@pytest.mark.django_db
def test_in_a_transparent_pool_members_see_the_others_by_pseudonym():
    lab = factories.pool("lab", transparent=True)
    tenants = [factories.tenant(slug) for slug in ("ada", "bob", "eve")]
    for tenant in tenants:
        factories.workload(lab, "w", 1, 1, tenant)
    as_ada = factories.client("tenant", tenants[0])
    rows = as_ada.get(MEMBERS).json()["results"]
    names = [row["tenant"] for row in rows]
    assert names == sorted(names)
    assert len(set(names)) == 3
    assert [name for name in names if not name.startswith("member-")] == ["ada"]
    assert as_ada.get(f"{MEMBERS}{names[1]}/").json() == rows[1]
    walked, path = [], f"{MEMBERS}?limit=1"
    while path:
        page = as_ada.get(path).json()
        walked += [row["tenant"] for row in page["results"]]
        path = page["next"]
    assert walked == names


def ended(world, operator):
    """The member without servers and workloads, and the answer to the end of its membership."""
    world.ada_workload.refresh_from_db()
    workload_withdraw(
        workload=world.ada_workload, version=world.ada_workload.version, now=utc_now()
    )
    for each in world.lab.servers.filter(contributed_by=world.ada):
        server_retire(server=each, version=each.version, now=utc_now())
    tag = operator.get(f"{MEMBERS}ada/")["ETag"]
    return operator.delete(f"{MEMBERS}ada/", If_Match=tag)


def test_a_member_with_servers_or_workloads_does_not_leave(world, operator):
    path = f"{MEMBERS}ada/"
    assert code(operator.delete(path)) == (428, "version.required")
    tag = operator.get(path)["ETag"]
    assert code(operator.delete(path, If_Match=tag)) == (409, "in_use")
    workload_withdraw(workload=world.ada_workload, version=1, now=utc_now())
    assert code(operator.delete(path, If_Match=tag)) == (409, "in_use")
    assert operator.get(path).status_code == 200
    assert code(world.as_ada.delete(path, If_Match=tag))[0] == 403
    assert code(operator.delete(f"{MEMBERS}eve/", If_Match=tag)) == (404, "member.not_found")


@pytest.mark.django_db(transaction=True)
def test_a_membership_ends_and_its_history_stays(world, operator):
    factories.decision(world.lab)
    terms = MembershipTerms.objects.get(membership__tenant=world.ada, membership__pool=world.lab)
    answer = ended(world, operator)
    assert answer.status_code == 204
    world.lab.refresh_from_db()
    assert answer["Pool-Generation"] == str(world.lab.generation)
    assert [row["tenant"] for row in operator.get(MEMBERS).json()["results"]] == ["bob"]
    assert code(operator.get(f"{MEMBERS}ada/")) == (404, "member.not_found")
    run = factories.decision(world.lab)
    rows = operator.get(f"/api/v1/runs/{run.pk}/allocations/").json()["results"]
    assert {row["tenant"] for row in rows} == {"bob"}
    again = MembershipTerms.objects.get(pk=terms.pk)
    assert (again.start, again.weight) == (terms.start, terms.weight)
    assert again.end is not None
    entry = AuditEntry.objects.filter(action="member.end").get()
    assert entry.pool == "lab"


def test_a_former_member_reads_its_statements_and_nothing_else(world, operator):
    ended(world, operator)
    assert world.as_ada.get("/api/v1/pools/lab/").status_code == 404
    draft = {"name": "w", "demand": {"cpu": 1}}
    assert world.as_ada.post("/api/v1/pools/lab/workloads/", draft).status_code == 404
    assert world.as_ada.get("/api/v1/pools/lab/statements/").status_code == 200


def test_a_former_member_is_admitted_again_under_new_terms(world, operator):
    ended(world, operator)
    answer = operator.put(f"{MEMBERS}ada/", {"weight": 3})
    assert (answer.status_code, answer.json()["weight"]) == (201, 3)
    assert Membership.objects.filter(tenant=world.ada, pool=world.lab).count() == 1
    weights = MembershipTerms.objects.filter(membership__tenant=world.ada).order_by("start")
    assert [(float(each.weight), each.end is None) for each in weights] == [(1, False), (3, True)]
    assert world.as_ada.get("/api/v1/pools/lab/").status_code == 200
    # A workload written for a former member admits it, too, as it does any tenant.
    ended(world, operator)
    factories.workload(world.lab, "again", 1, 1, world.ada)
    assert operator.get(f"{MEMBERS}ada/").status_code == 200
    assert {row["tenant"] for row in operator.get(MEMBERS).json()["results"]} == {"ada", "bob"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("policy", ["tda", "h-mrf"])
def test_policies_that_remember_decide_without_a_former_member(policy, operator):
    pool = factories.pool("turns", policy=policy)
    tenants = {slug: factories.tenant(slug) for slug in ("ada", "bob")}
    factories.server(pool, "s", 4, 4, None)
    work = {slug: factories.workload(pool, "w", 1, 1, each) for slug, each in tenants.items()}
    factories.decision(pool)
    workload_withdraw(workload=work["ada"], version=1, now=utc_now())
    path = "/api/v1/pools/turns/members/ada/"
    assert operator.delete(path, If_Match=operator.get(path)["ETag"]).status_code == 204
    run = factories.decision(pool)
    assert run.status == "succeeded", run.error
    rows = operator.get(f"/api/v1/runs/{run.pk}/allocations/").json()["results"]
    assert {row["tenant"] for row in rows} == {"bob"}
