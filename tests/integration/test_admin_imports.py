"""Files imported in the admin: the rows are shown first, then written as the API would."""

import base64
import zlib

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from allocator_service.core.models import AuditEntry, PoolLimit
from allocator_service.imports import admin as imports_admin
from allocator_service.imports import csv_files
from allocator_service.imports.columns import NODES, TREE
from allocator_service.imports.columns import TENANTS as TENANTS_OF_FILE
from allocator_service.imports.columns import WORKLOADS as WORKLOADS_OF_FILE
from allocator_service.pools.models import Group, Server
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload
from tests import factories
from tests.integration.conftest import NOON

pytestmark = pytest.mark.django_db(transaction=True)
SERVERS = reverse("admin:pools_server_import")
GROUPS = reverse("admin:pools_group_import")
TENANTS = reverse("admin:tenants_tenant_import")
WORKLOADS = reverse("admin:workloads_workload_import")


@pytest.fixture
def operator(client):
    client.force_login(get_user_model().objects.create_superuser("olga"))
    return client


def sent(client, url, content, **fields):
    """The page after a file was chosen."""
    data = content if isinstance(content, bytes) else content.encode()
    return client.post(url, {"format": "csv", **fields, "file": SimpleUploadedFile("rows", data)})


def confirmed(client, url, page, **more):
    """The page after its button was pressed."""
    return client.post(url, {**dict(page.context["hidden"]), "apply": "yes", **more}, follow=True)


def outcomes(page):
    return [
        (str(row.place), row.name, str(outcome), why) for row, outcome, why in page.context["rows"]
    ]


def said(page):
    return [str(message) for message in page.context["messages"]]


def test_servers_are_shown_then_added_and_the_message_says_how_many(operator, fig2, tenant):
    csv = "name,count,capacity.cpu,capacity.memory\nnode,20,4,16\nhigh-cpu,,12,4\n"
    page = sent(operator, SERVERS, csv, pool="lab", tenant="u2")
    assert outcomes(page) == [
        ("line 2", "node", "to add", ""),
        ("line 3", "high-cpu", "to change", ""),
    ]
    assert 'value="Import: 20 servers to add, 1 to change"' in page.content.decode()
    assert Server.objects.count() == 2

    done = confirmed(operator, SERVERS, page, reason="the new rack")
    assert said(done) == ["20 servers added, 1 changed."]
    assert Server.objects.filter(contributed_by=tenant("u2")).count() == 21
    assert Server.objects.get(name="high-cpu").capacity == [12, 4]
    entry = AuditEntry.objects.filter(action="server.contribute").first()
    assert (entry.actor, entry.reason) == ("user olga", "the new rack")

    again = sent(operator, SERVERS, csv, pool="lab", tenant="u2")
    assert [outcome for _, _, outcome, _ in outcomes(again)] == ["unchanged", "unchanged"]
    assert again.context["pending"] == ""


def test_a_refused_row_is_named_with_its_line_and_keeps_all_others_out(operator, fig2):
    csv = "name,capacity.cpu\ngood,4\nbad,1.2.3\nworse,-1\n"
    page = sent(operator, SERVERS, csv, pool="lab")
    assert [(place, outcome) for place, _, outcome, _ in outcomes(page)] == [
        ("line 3", "refused"),
        ("line 4", "refused"),
        ("line 2", "to add"),
    ]
    assert "quantity." in outcomes(page)[0][3]
    content = " ".join(page.content.decode().split())
    assert "2 of 3 rows are refused: nothing would be written." in content
    assert page.context["pending"] == ""
    assert Server.objects.count() == 2
    forged = confirmed(operator, SERVERS, page)
    assert forged.context["report"].written is False
    assert Server.objects.count() == 2

    page = sent(operator, SERVERS, csv, pool="lab", skip_refused="on")
    done = confirmed(operator, SERVERS, page)
    assert said(done) == ["1 server added, 2 refused."]
    assert sorted(Server.objects.values_list("name", flat=True))[0] == "good"


def test_workloads_register_the_tenants_that_are_new(operator, fig2):
    csv = "tenant,name,demand.cpu,tasks\nnew,train,2,8\n"
    page = sent(operator, WORKLOADS, csv, pool="lab")
    assert "tenant.unknown" in outcomes(page)[0][3]
    page = sent(operator, WORKLOADS, csv, pool="lab", register_tenants="on")
    assert "Tenants that would be registered: new." in page.content.decode()
    assert not Tenant.objects.filter(slug="new").exists()
    done = confirmed(operator, WORKLOADS, page)
    assert said(done) == ["1 workload added. 1 tenant registered."]
    assert Workload.objects.get(name="train").tasks == 8


@pytest.mark.parametrize(
    ("file_format", "content", "places"),
    [
        ("csv", "slug,name\nalpha,Alpha group\nu1,Renamed\nu2,U2\nold,Old\nA B,x\n", "line"),
        (
            "json",
            '[{"slug": "alpha", "name": "Alpha group"}, {"slug": "u1", "name": "Renamed"},'
            ' {"slug": "u2", "name": "U2"}, {"slug": "old"}, {"slug": "A B"}]',
            "item",
        ),
    ],
)
def test_tenants_are_added_renamed_and_left(operator, fig2, tenant, file_format, content, places):
    Tenant.objects.filter(pk=tenant("old").pk).update(retired_at=NOON)
    page = sent(operator, TENANTS, content, format=file_format)
    found = {name: (place.split()[0], outcome) for place, name, outcome, _ in outcomes(page)}
    assert found == {
        "alpha": (places, "to add"),
        "u1": (places, "to change"),
        "u2": (places, "unchanged"),
        "old": (places, "refused"),
        "A B": (places, "refused"),
    }
    page = sent(operator, TENANTS, content, format=file_format, skip_refused="on")
    done = confirmed(operator, TENANTS, page, reason="term begins")
    assert said(done) == ["1 tenant added, 1 changed, 1 unchanged, 2 refused."]
    assert Tenant.objects.get(slug="alpha").name == "Alpha group"
    assert Tenant.objects.get(slug="u1").name == "Renamed"
    made = AuditEntry.objects.get(action="tenant.create", object_name="alpha")
    assert (made.reason, made.after["name"]) == ("term begins", "Alpha group")


@pytest.mark.parametrize(
    ("fields", "content", "words"),
    [
        ({}, b"\xff\xfename", "The file is not UTF-8: line 1"),
        ({}, b"", "The submitted file is empty."),
        ({}, b"\n", "the column &quot;slug&quot; is missing"),
        ({}, b"slug,colour\na,b\n", "the column &quot;colour&quot; is unknown"),
        ({"format": "json"}, b'{"slug": "a"}', "expected an array"),
        ({"format": "json"}, b"[" * 100_000, "nested too deeply"),
        ({"format": "json"}, b"[NaN]", "NaN is not a JSON number"),
        ({"format": "xml"}, b"slug\na\n", "Select a valid choice"),
    ],
)
def test_what_is_no_such_file_is_said_on_the_form(operator, db, fields, content, words):
    page = sent(operator, TENANTS, content, **fields)
    assert page.status_code == 200
    assert "report" not in page.context
    assert words in page.content.decode()


def test_a_file_that_is_too_large_or_missing_is_said_so(operator, db, monkeypatch):
    monkeypatch.setattr(imports_admin, "MAX_BYTES", 10)
    page = sent(operator, TENANTS, "slug\nalphabet\n")
    assert "larger than 8 MiB" in page.content.decode()
    assert "Choose a file." in operator.post(TENANTS, {"format": "csv"}).content.decode()


@pytest.mark.parametrize(
    "content", ["%%%", "YQ==", base64.b64encode(zlib.compress(b"0" * (9 * 2**20))).decode()]
)
def test_content_that_was_tampered_with_is_not_read(operator, db, content):
    page = operator.post(TENANTS, {"format": "csv", "content": content, "apply": "yes"})
    assert "The rows cannot be read: choose the file again." in page.content.decode()


def test_rows_are_shown_again_when_the_pool_has_changed_meanwhile(operator, fig2):
    csv = "name,capacity.cpu\nnode,4\n"
    first = sent(operator, SERVERS, csv, pool="lab")
    confirmed(
        operator, SERVERS, sent(operator, SERVERS, "name,capacity.cpu\nother,4\n", pool="lab")
    )
    page = confirmed(operator, SERVERS, first)
    assert said(page) == ["The pool has changed: check the rows again."]
    assert not Server.objects.filter(name="node").exists()
    assert said(confirmed(operator, SERVERS, page)) == ["1 server added."]


def test_who_may_only_look_imports_nothing(client, fig2):
    user = get_user_model().objects.create_user("auditor", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_server"))
    client.force_login(user)
    assert client.get(SERVERS).status_code == 403
    assert sent(client, SERVERS, "name,capacity.cpu\nn,4\n", pool="lab").status_code == 403
    listed = client.get(reverse("admin:pools_server_changelist")).content.decode()
    assert "Import from a file" not in listed


def test_who_may_not_add_tenants_registers_none_by_a_file(client, fig2):
    user = get_user_model().objects.create_user("porter", is_staff=True)
    mine = Permission.objects.filter(content_type__model="workload")
    user.user_permissions.set(mine)
    client.force_login(user)
    csv = "tenant,name,demand.cpu\nnew,train,2\n"
    page = sent(client, WORKLOADS, csv, pool="lab", register_tenants="on")
    assert "tenant.unknown" in outcomes(page)[0][3]
    confirmed(client, WORKLOADS, page)
    assert not Tenant.objects.filter(slug="new").exists()
    page = sent(client, WORKLOADS, "tenant,name,demand.cpu\nu1,train,2\n", pool="lab")
    assert said(confirmed(client, WORKLOADS, page)) == ["1 workload added."]


def test_many_servers_made_by_the_form_are_counted_in_its_message(operator, fig2):
    form = {"pool": fig2.pk, "name": "node", "capacity": "cpu=4", "labels": "", "count": "20"}
    page = operator.post(reverse("admin:pools_server_add"), form, follow=True)
    assert said(page) == ["20 servers added to lab: node-0001 to node-0020."]
    assert Server.objects.filter(name__startswith="node-").count() == 20


def test_a_tree_is_shown_then_written(operator, fig2, tenant):
    csv = "kind,slug,parent,weight\ngroup,labs,,3\nmember,u1,labs,2\n"
    page = sent(operator, GROUPS, csv + "group,x,nowhere,1\n", pool="lab")
    assert outcomes(page)[0][:3] == ("line 4", "x", "refused")
    page = sent(operator, GROUPS, csv, pool="lab")
    assert [row[2] for row in outcomes(page)] == ["to add", "to change"]
    assert fig2.groups.count() == 0
    confirmed(operator, GROUPS, page, reason="the new departments")
    assert fig2.groups.get().slug == "labs"
    slurm = "Account|User|Share\nroot||1\n labs||5\n  vision||1\n   vision|ann|1\n"
    page = sent(operator, GROUPS, slurm, pool="lab", format="sacctmgr", tenant_label="User",
                register_tenants="on")  # fmt: skip
    assert [row[:3] for row in outcomes(page)] == [
        ("line 2", "root", "skipped"),
        ("line 3", "labs", "to change"),
        ("line 4", "vision", "to add"),
        ("line 5", "ann", "to add"),
    ]


@pytest.mark.parametrize(
    ("url", "model", "added"),
    [(SERVERS, Server, 4), (GROUPS, Group, 2), (WORKLOADS, Workload, 2), (TENANTS, Tenant, 2)],
)
def test_the_sample_of_every_import_is_imported(operator, fig2, url, model, added):
    page = operator.get(url)
    sample = operator.get(f"{url}sample/", {"pool": "lab"})
    assert sample.headers["Content-Disposition"].startswith('attachment; filename="sample-')
    header = sample.content.decode().splitlines()[0].split(",")
    titles = {title for title, _ in page.context["columns"]}
    families = {name.replace("cpu", "RESOURCE").replace("memory", "RESOURCE") for name in header}
    assert {name.replace(".zone", ".KEY") for name in families} <= titles
    text = page.content.decode()
    assert all(f"<code>{title}</code>" in text for title in titles)
    before = model.objects.count()
    options = {"pool": "lab", "register_tenants": "on"}
    shown = sent(operator, url, sample.content, **({} if url == TENANTS else options))
    rows = outcomes(shown)
    assert {outcome for _, _, outcome, _ in rows} <= {"to add", "to change"}, rows
    assert len(rows) == len(sample.content.decode().splitlines()) - 1
    confirmed(operator, url, shown)
    assert model.objects.count() == before + added


def test_a_sample_for_a_pool_without_members_names_a_tenant_to_register(operator):
    factories.pool("empty")
    sample = operator.get(f"{WORKLOADS}sample/", {"pool": "empty"}).content
    assert b"sample-tenant" in sample
    page = sent(operator, WORKLOADS, sample, pool="empty", register_tenants="on")
    confirmed(operator, WORKLOADS, page)
    made = Workload.objects.filter(tenant__slug="sample-tenant")
    assert sorted(made.values_list("tasks", flat=True)) == [2, 4]  # none takes all that is free


def test_samples_are_for_those_who_may_import_and_of_pools_that_they_see(operator, client, fig2):
    assert operator.get(f"{SERVERS}sample/").status_code == 404
    assert operator.get(f"{SERVERS}sample/", {"pool": "nowhere"}).status_code == 404
    factories.pool("other")
    user = get_user_model().objects.create_user("vera", is_staff=True)
    client.force_login(user)
    assert client.get(f"{SERVERS}sample/", {"pool": "lab"}).status_code == 403
    rights = Permission.objects.filter(codename__in=["add_server", "change_server", "view_server"])
    user.user_permissions.set(rights)
    PoolLimit.objects.create(user=user, pools=["other"])
    assert client.get(f"{SERVERS}sample/", {"pool": "lab"}).status_code == 404
    assert client.get(f"{SERVERS}sample/", {"pool": "other"}).status_code == 200


def test_every_column_that_a_reader_knows_has_a_description():
    for columns in (NODES, WORKLOADS_OF_FILE, TENANTS_OF_FILE, TREE):
        assert all(column.note.endswith(".") for column in columns)
    assert csv_files.NODE_COLUMNS == ("name", "contributed_by", "count", "capacity.", "labels.")
    assert set(csv_files.GANG_COLUMNS) < set(csv_files.WORKLOAD_COLUMNS)
