"""What the admin's forms take is what the API takes: nothing else is stored, and nothing is a 500."""

import re

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.urls import reverse

from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.core.models import AuditEntry
from allocator_service.pools.models import Pool, Server
from allocator_service.pools.selectors import resources_of
from allocator_service.tenants.models import ApiKey, GroupGrant, Tenant
from allocator_service.workloads.admin import PiecesField
from allocator_service.workloads.models import Workload
from tests import factories
from tests.form_fields import untouched
from tests.integration.conftest import NOON

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def superuser(client):
    client.force_login(get_user_model().objects.create_superuser("operator"))
    return client


def server(pool, **fields):
    return {
        "pool": pool.pk,
        "name": "new",
        "capacity": "cpu=1",
        "count": 1,
        "labels": "",
    } | fields


def workload(pool, **fields):
    tenant = Tenant.objects.get(slug="u1")
    return {
        "pool": pool.pk, "tenant": tenant.pk, "name": "new", "demand": "cpu=1", "tasks": 1,
        "priority": 0, "server_selector": "",
    } | fields  # fmt: skip


def refused(page):
    assert page.status_code == 200, page.status_code
    return str(page.context["adminform"].form.errors)


BAD_LABELS = {
    "zone": "Line 1: expected name=value, such as zone=a, got “zone”.",
    "a=b\n\n =c": "Line 3: the name before “=” is empty.",
    '""=c': "Line 1: the name before “=” is empty.",
    "zone=a\nzone = b": "Line 2: the name “zone” is used twice.",
    "zone=" + "x" * 254: "Line 1: the value of “zone” is refused. Expected at most 253 characters.",
    "x" * 254
    + "=a": f"Line 1: the name “{'x' * 40}…” is refused. Expected at most 253 characters.",
    "zone=a\u202eb": "Line 1: the value of “zone” is refused. Expected one line",
    "zone=a\u2028b": "Line 1: the value of “zone” is refused. Expected one line",
    "z\x07=a": "is refused. Expected one line",
    '"zone=a': "Line 1: expected a text between double quotes",
    'zone="\\x"': "Line 1: expected a text between double quotes",
    'zone="\\ud800"': "Line 1: expected a text between double quotes",
    'zone="\\n"': "Line 1: the value of “zone” is refused. Expected one line",
    "\n".join(f"label-{n}=a" for n in range(65)): "Expected at most 64 labels, got 65.",
    "zone\nrack": "Line 2: expected name=value",
}


@pytest.mark.parametrize("labels", BAD_LABELS)
def test_labels_that_the_api_refuses_are_refused(superuser, fig2, labels):
    before = Server.objects.count()
    page = superuser.post("/admin/pools/server/add/", server(fig2, labels=labels))
    refused(page)
    form = page.context["adminform"].form
    assert BAD_LABELS[labels] in " ".join(form.errors["labels"])
    assert list(form.errors) == ["labels"]
    assert form["labels"].value() == labels
    assert Server.objects.count() == before


@pytest.mark.parametrize(
    ("selector", "sentence"),
    [
        ("zone", "Line 1: expected name=value"),
        ("zone=a,,b", "Line 1: expected a value on each side of a comma, got “a,,b”."),
        ("zone=a,", "Line 1: expected a value on each side of a comma"),
        ('zone="a"b', "Line 1: expected a text between double quotes"),
        ("zone=" + ",".join("a" * 101), "Expected at least one value and at most 100."),
        ("zone=a," + "x" * 254, "the value of “zone” is refused. Expected at most 253 characters."),
    ],
)
def test_selectors_that_the_api_refuses_are_refused(superuser, fig2, selector, sentence):
    page = superuser.post(
        "/admin/workloads/workload/add/", workload(fig2, server_selector=selector)
    )
    assert sentence in " ".join(page.context["adminform"].form.errors["server_selector"])
    assert not Workload.objects.filter(name="new").exists()


LABELS = {
    "zone": "a", "empty": "", "a=b": "c", "größe": "Ωmega 1", "quoted": '"x"',
    'q"': "d,e",
}  # fmt: skip


def test_what_is_right_is_stored_and_decided(superuser, fig2):
    labels = 'zone = a\r\n\r\nempty=\r\n"a=b"=c\r\ngröße=Ωmega 1\r\nquoted="\\"x\\""'
    sent = server(fig2, labels=labels + '\r\nq"=d,e')
    assert superuser.post("/admin/pools/server/add/", sent).status_code == 302
    assert Server.objects.get(name="new").labels == LABELS
    sent = workload(fig2, server_selector='zone=a,b,"c,d",""\nempty=', priority=1_000_000)
    assert superuser.post("/admin/workloads/workload/add/", sent).status_code == 302
    selector = {"zone": ["a", "b", "c,d", ""], "empty": ""}
    assert Workload.objects.get(name="new").server_selector == selector
    run = recompute_pool(pool_id=fig2.pk, clock=lambda: NOON, early=True)
    assert run.status == "succeeded"
    assert run.allocations.filter(workload__name="new").exists()


def test_labels_are_shown_as_they_are_read(superuser, fig2):
    placed = Server.objects.get(name="high-cpu")
    Server.objects.filter(pk=placed.pk).update(labels=LABELS)
    url = reverse("admin:pools_server_change", args=[placed.pk])
    form = superuser.get(url).context["adminform"].form
    sent = untouched(form)
    assert {"zone=a", "empty=", '"a=b"=c', 'q"=d,e'} < set(sent["labels"].splitlines())
    assert superuser.post(url, sent | {"labels": sent["labels"] + "\nmore=1"}).status_code == 302
    assert Server.objects.get(pk=placed.pk).labels == LABELS | {"more": "1"}


def test_a_selector_that_is_not_changed_stays_as_it_was_sent(superuser, fig2):
    Workload.objects.filter(name="analysis").update(server_selector={"zone": ["a"]})
    asked = Workload.objects.get(name="analysis")
    url = reverse("admin:workloads_workload_change", args=[asked.pk])
    sent = untouched(superuser.get(url).context["adminform"].form)
    assert sent["server_selector"] == "zone=a"
    assert superuser.post(url, sent | {"priority": 7}).status_code == 302
    asked.refresh_from_db()
    assert (asked.priority, asked.server_selector) == (7, {"zone": ["a"]})


@pytest.mark.parametrize(
    ("address", "sent", "field"),
    [
        ("pools/server", {"name": "a\u202eb"}, "name"),
        ("pools/server", {"name": "x" * 254}, "name"),
        ("workloads/workload", {"priority": 1_000_001}, "priority"),
        ("workloads/workload", {"name": "a\u202eb"}, "name"),
    ],
)
def test_names_and_numbers_have_the_limits_of_the_api(superuser, fig2, address, sent, field):
    form = server(fig2, **sent) if "server" in address else workload(fig2, **sent)
    assert field in refused(superuser.post(f"/admin/{address}/add/", form))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"resources": "cpu " + "x" * 21}, "resources"),
        ({"resources": "cpu a\u202eb"}, "resources"),
        ({"name": "a\u202eb"}, "name"),
    ],
)
def test_a_pool_has_the_limits_of_the_api(superuser, changed, field):
    form = superuser.get("/admin/pools/pool/add/").context["adminform"].form
    sent = untouched(form) | {"slug": "new", "name": "New"} | changed
    assert field in refused(superuser.post("/admin/pools/pool/add/", sent))
    assert not Pool.objects.filter(slug="new").exists()


def test_a_key_of_a_group_names_a_group_of_its_pool(pool, superuser):
    group = factories.group(pool, "science")
    other = factories.pool("elsewhere")
    url = reverse("admin:tenants_apikey_add")
    fields = {
        "name": "science-head", "scope": "group", "pool": pool.slug, "group": group.pk,
        "expires_at_0": "2100-01-01", "expires_at_1": "00:00:00", "access": "read",
    }  # fmt: skip
    for wrong in ({"pool": other.slug}, {"group": ""}, {"scope": "operator"}, {"access": "x"}):
        assert superuser.post(url, fields | wrong).status_code == 200
        assert not ApiKey.objects.exists()
    assert superuser.post(url, fields).status_code == 302
    key = ApiKey.objects.get()
    assert (key.scope, key.pool, key.group) == ("group", pool.slug, group.pk)
    assert key.access == "read"
    page = superuser.get(reverse("admin:tenants_apikey_changelist")).content.decode()
    assert "group science of lab (read)" in page


def test_people_are_bound_to_a_group_of_a_pool(pool, superuser):
    group = factories.group(pool, "science")
    url = reverse("admin:tenants_groupgrant_add")
    fields = {"group": "/science/heads", "pool_group": group.pk, "tenant": "", "access": "read"}
    ada = factories.tenant("ada")
    for wrong in (
        {"pool_group": ""}, {"tenant": ada.pk}, {"access": ""}, {"group": ""},
        {"pool_group": "", "tenant": ada.pk},
    ):  # fmt: skip
        assert superuser.post(url, fields | wrong).status_code == 200, wrong
        assert not GroupGrant.objects.exists()
    assert superuser.post(url, fields).status_code == 302
    assert superuser.post(url, fields).status_code == 200  # they may already
    grant = GroupGrant.objects.get()
    assert (grant.pool, grant.pool_group, grant.access) == (pool.slug, group.pk, "read")
    entry = AuditEntry.objects.get(action="grant.create")
    assert entry.after["pool_group"] == group.pk
    page = superuser.get(reverse("admin:tenants_groupgrant_changelist")).content.decode()
    assert "science</td>" in page
    selected = {"action": "withdraw", "_selected_action": [grant.pk]}
    superuser.post(reverse("admin:tenants_groupgrant_changelist"), selected)
    grant.refresh_from_db()
    assert grant.withdrawn_at is not None


def test_tasks_of_several_pieces_are_written_as_lines(superuser, fig2):
    fig2.policy_name, fig2.policy_mode = "drfh", "indivisible"
    fig2.save(update_fields=["policy_name", "policy_mode"])
    resources = [resource.name for resource in resources_of(fig2)]
    first = resources[0]
    add = "/admin/workloads/workload/add/"
    lines = f"4 x {first}=1\n2 x {first}=0.5"
    sent = workload(fig2, demand="", pieces=lines, per_server="2", together="rack", at_least="")
    assert superuser.post(add, sent).status_code == 302
    found = Workload.objects.get(name="new")
    assert ([each["count"] for each in found.pieces], float(found.demand[0])) == ([4, 2], 5.0)
    assert (found.per_server, found.together, found.at_least) == (2, "rack", 1)
    page = superuser.get(f"/admin/workloads/workload/{found.pk}/change/").content.decode()
    assert f"4 x {first}=1\n2 x {first}=0.5" in page
    # The page as it is shown changes nothing; the demand stays empty, as it is the sum.
    form = {**sent, "at_least": "1", "state": "active"}
    assert superuser.post(f"/admin/workloads/workload/{found.pk}/change/", form).status_code == 302
    again = Workload.objects.get(pk=found.pk)
    assert (again.pieces, again.demand) == (found.pieces, found.demand)
    one = {**form, "pieces": "", "demand": f"{first}=1", "per_server": "", "together": ""}
    assert superuser.post(f"/admin/workloads/workload/{found.pk}/change/", one).status_code == 302
    assert Workload.objects.get(pk=found.pk).pieces == []


@pytest.mark.parametrize(
    ("line", "count", "demand"),
    [
        ("4 x gpu=8 cpu=2", 4, {"gpu": "8", "cpu": "2"}),
        ("4xgpu=8", 4, {"gpu": "8"}),
        ("4x gpu=8", 4, {"gpu": "8"}),
        ("0004 × gpu=8", 4, {"gpu": "8"}),
        ("4*gpu=8", 4, {"gpu": "8"}),
        ("10000 x x=8", 10_000, {"x": "8"}),
        ("xgpu=8", 1, {"xgpu": "8"}),
        ("2xxgpu=8", 2, {"xgpu": "8"}),
    ],
)
def test_a_line_of_pieces_is_read(line, count, demand):
    assert PiecesField().clean(line) == [{"count": count, "demand": demand}]


@pytest.mark.parametrize(
    "line",
    [
        "1e3 x gpu=1", "99999999999999999999 x gpu=1", "2 x", "2x", "0 x gpu=1", "10001 x gpu=1",
        "-1 x gpu=1", "1.5 x gpu=1", "4 xgpu=8", "x gpu=1", "4 gpu=8", "٤ x gpu=1",
        "9" * 5_000 + " x a=1",
    ],
)  # fmt: skip
def test_another_line_of_pieces_is_refused_with_what_is_expected(line):
    with pytest.raises(ValidationError) as refused:
        PiecesField().clean(line)
    assert refused.value.messages == [
        f"“{line[:60]}”: expected a number of pieces from 1 to 10,000, x, and a demand, such as"
        " “4 x gpu=8”."
    ]


def test_the_admin_explains_and_shows_tasks_of_several_pieces(superuser, fig2):
    fig2.policy_name, fig2.policy_mode = "drfh", "indivisible"
    fig2.save(update_fields=["policy_name", "policy_mode"])
    page = superuser.get("/admin/workloads/workload/add/").content.decode()
    for name, start in (
        ("per_server", "The most pieces"),
        ("together", "A label, such as rack"),
        ("at_least", "The least number"),
    ):
        assert re.search(rf'id="id_{name}_helptext"[^>]*>\s*<div>{start}', page), name
    first = resources_of(fig2)[0].name
    sent = workload(fig2, demand="", pieces=f"3 x {first}=1", together="rack")
    assert superuser.post("/admin/workloads/workload/add/", sent).status_code == 302
    listed = superuser.get("/admin/workloads/workload/").content.decode()
    assert re.search(r"\(3 pieces of 1 [^()]*, on servers with the same rack\)", listed)


def test_the_minimum_of_a_workload_is_a_number_and_a_unit(superuser, fig2):
    unit = {"minimum_run_0": "10", "minimum_run_1": "minutes"}
    assert (
        superuser.post("/admin/workloads/workload/add/", workload(fig2, **unit)).status_code == 302
    )
    found = Workload.objects.get(name="new")
    assert found.minimum_run == "PT10M"
    change = f"/admin/workloads/workload/{found.pk}/change/"
    without = workload(fig2, state="active", minimum_run_0="", minimum_run_1="minutes")
    assert superuser.post(change, without).status_code == 302
    assert Workload.objects.get(pk=found.pk).minimum_run == ""


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"pieces": "0 x {r}=1"}, "pieces"),
        ({"pieces": "99999 x {r}=1"}, "pieces"),
        ({"pieces": "4 x"}, "pieces"),
        ({"pieces": "4 x {r}"}, "pieces"),
        ({"pieces": "1 x {r}=1\n1 x {r}=2\n1 x {r}=3"}, "pieces"),
        ({"pieces": "2 x {r}=1", "demand": "{r}=3"}, "demand"),
        ({"pieces": "2 x {r}=-1"}, "pieces"),
        ({"pieces": "2 x disk=1"}, "pieces"),
        ({"pieces": "2 x {r}=0"}, "pieces"),
        ({"per_server": "2", "demand": "{r}=1"}, "per_server"),
        ({"pieces": "2 x {r}=1", "per_server": "0"}, "per_server"),
        ({"at_least": "0", "demand": "{r}=1"}, "at_least"),
        ({}, "demand"),
    ],
)
def test_pieces_that_no_pool_can_run_are_refused(superuser, fig2, change, where):
    fig2.policy_name, fig2.policy_mode = "drfh", "indivisible"
    fig2.save(update_fields=["policy_name", "policy_mode"])
    name = resources_of(fig2)[0].name
    filled = {key: text.replace("{r}", name) for key, text in change.items()}
    sent = workload(fig2, **{"demand": "", **filled})
    assert where in refused(superuser.post("/admin/workloads/workload/add/", sent))
    assert not Workload.objects.filter(name="new").exists()
