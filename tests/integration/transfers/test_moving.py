"""A pool moves to another installation, here the same database after it was emptied."""

import re
from datetime import timedelta
from io import StringIO

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command

from allocator_service.billing.models import Closing, Statement
from allocator_service.billing.statements.closing import month_close
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Conflict
from allocator_service.core.history import history_page
from allocator_service.core.models import AuditEntry, Event
from allocator_service.ledger.models import Block, LedgerImport, Seal
from allocator_service.pools.models import Group, Membership, Pool
from allocator_service.tenants.models import ApiKey, Tenant
from allocator_service.transfers.tables import STAYING, TABLES
from tests import factories
from tests.documented import openapi
from tests.emptying import empty
from tests.integration.billing.conftest import month
from tests.integration.transfers.conftest import filled, seal, this_month, used

pytestmark = pytest.mark.django_db(transaction=True)

# States of this moment, and what an installation has of its own.
OF_NOW = re.compile(r"/(enforcement|entitlements|decision/renderings|metrics)")


def manage(*arguments):
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def picture(at, slug="lab"):
    """Answers of the API about a pool until an instant, by path, and its ledger in bytes."""
    operator = factories.client("operator")
    begin = at - timedelta(days=40)
    instants = {"from": f"{begin:%Y-%m-%dT00:00:00Z}", "to": f"{at:%Y-%m-%dT%H:00:00Z}"}
    instants["at"] = f"{at:%Y-%m-%dT%H:%M:%SZ}"
    found = {}
    for path, methods in openapi()["paths"].items():
        if "get" not in methods or re.findall(r"{(\w+)}", path) != ["pool"] or OF_NOW.search(path):
            continue
        names = {each["name"] for each in methods["get"].get("parameters", [])} & set(instants)
        query = "&".join(f"{name}={instants[name]}" for name in sorted(names))
        answer = operator.get(f"{path.replace('{pool}', slug)}?{query}")
        if answer.status_code == 200:
            found[path] = b"".join(answer) if answer.streaming else answer.content
    for closing in Closing.objects.filter(pool__slug=slug):
        found[f"{closing}"] = bytes(closing.document)
    for each in Statement.objects.filter(closing__pool__slug=slug).select_related("tenant"):
        found[f"{each.closing}/{each.tenant.slug}"] = bytes(each.document)
    for options in ("format=csv", "format=ndjson"):
        export = operator.get(f"/api/v1/ledger-entries/export/?pool={slug}&{options}")
        found[options] = b"".join(export)
    found["blocks"] = operator.get(f"/api/v1/ledger-blocks/?pool={slug}").content
    found["events"] = [
        (str(each.pk), each.kind, each.payload)
        for each in Event.objects.filter(pool=slug).order_by("seal__sequence")
    ]
    return found


def exported(tmp_path, slug="lab"):
    file = tmp_path / f"{slug}.pool"
    return file, manage("export_pool", slug, str(file), "--to", "https://b.example.org")


def another_installation():
    """Empty the database, and fill it with a pool whose numbers and keys are those of others."""
    empty()
    other = factories.pool("other", metering="reported")
    zoe = factories.tenant("zoe")
    factories.member(other, zoe, None)
    for number in range(5):
        used(other, zoe, f"z{number}", 1, utc_now() - timedelta(days=1))
    seal()
    assert set(Seal.objects.values_list("sequence", flat=True)) == set(range(1, 11))


@pytest.mark.parametrize("policy", ["drfh", "h-mrf"])
def test_a_pool_is_the_same_after_its_move_and_goes_on(tmp_path, policy):
    pool = filled(policy=policy)
    at = utc_now()
    before = picture(at)
    assert len(before) > 20
    tail = Block.objects.filter(pool=pool).latest("number")
    last = Seal.objects.filter(pool=pool).latest("sequence")
    file, wrote = exported(tmp_path)
    another_installation()
    feed = factories.client("billing").get("/api/v1/ledger-entries/?pool=other&limit=1000").json()

    read = manage("import_pool", "lab", str(file))

    # The same generation, numbers and digest; the archive and its tenants are stated as well.
    assert wrote.splitlines()[:3] == read.splitlines()[:3]
    assert "holds  gapless  10 numbers of 10" in manage("verify")
    after = picture(at)
    moved = {each[1] for each in after["events"]} - {each[1] for each in before["events"]}
    assert moved == set()
    assert {key for key in before if before[key] != after.get(key)} == set()
    # It goes on: usage, a decision, the next block and the next number, after those of all pools.
    pool = Pool.objects.get(slug="lab")
    ada = Tenant.objects.get(slug="ada")
    used(pool, ada, "after", 2, utc_now() - timedelta(hours=1))
    factories.workload(pool, "later", 1, 1, ada)
    run = factories.decision(pool)
    seal()
    new = Seal.objects.filter(pool=pool, sequence__gt=last.sequence).order_by("sequence")
    numbered = max(last.sequence, 10)
    assert next(iter(new.values_list("sequence", flat=True))) == numbered + 1
    blocks = list(Block.objects.filter(pool=pool).values_list("number", flat=True))
    assert blocks == list(range(1, len(blocks) + 1))
    assert len(blocks) > tail.number
    assert run.generation == Pool.objects.get(slug="lab").generation
    operator = factories.client("operator")
    cursor = operator.get("/api/v1/ledger-entries/?pool=lab&limit=1000").json()["next_cursor"]
    assert operator.get(f"/api/v1/ledger-entries/?pool=lab&after={cursor}").json()["results"] == []
    # A consumer of all pools gets no entry of another pool again, and all new ones.
    following = factories.client("billing").get(
        f"/api/v1/ledger-entries/?after={feed['next_cursor']}&limit=1000"
    )
    rows = following.json()["results"]
    assert {row["pool"] for row in rows} == {"lab"}
    assert {row["sequence"] for row in rows} >= set(new.values_list("sequence", flat=True))
    checks = manage("verify")
    assert "FAILS" not in checks


def test_pages_of_all_pools_have_each_entry_once_although_numbers_repeat(tmp_path):
    filled()
    file, _ = exported(tmp_path)
    another_installation()
    manage("import_pool", "lab", str(file))
    billing = factories.client("billing")
    seen, cursor = [], ""
    while True:
        page = billing.get(f"/api/v1/ledger-entries/?limit=1{cursor}").json()
        if not page["results"]:
            break
        seen += page["results"]
        cursor = f"&after={page['next_cursor']}"
    numbers = [row["sequence"] for row in seen]
    assert len(set(numbers)) < len(numbers)
    assert numbers == sorted(numbers)
    assert len({row["id"] for row in seen}) == len(seen) == Seal.objects.count()


def test_keys_and_histories_follow_the_pool(tmp_path):
    filled()
    digests = set(ApiKey.objects.exclude(pool="").values_list("digest", flat=True))
    science = Group.objects.get(slug="science")
    titles = list(
        AuditEntry.objects.filter(object_type="group", object_id=str(science.pk)).values_list(
            "pk", flat=True
        )
    )
    file, _ = exported(tmp_path)
    another_installation()
    # A group here with the key that the archive's had there.
    other = Pool.objects.get(slug="other")
    stranger = Group.objects.create(
        pk=science.pk, pool=other, slug="them", name="Them", created_at=utc_now()
    )
    manage("import_pool", "lab", str(file))

    moved = Group.objects.get(slug="science")
    assert moved.pk != science.pk
    assert titles
    page, _ = history_page(moved, "1")
    assert {entry.pk for entry in page.object_list} == set(titles)
    assert history_page(stranger, "1")[1] == []
    keys = ApiKey.objects.exclude(pool="")
    assert {bytes(each.digest) for each in keys} == {bytes(each) for each in digests}
    assert keys.get(scope="group").group == moved.pk


def test_a_pool_moves_twice(tmp_path):
    filled()
    file, _ = exported(tmp_path)
    another_installation()
    manage("import_pool", "lab", str(file))
    pool = Pool.objects.get(slug="lab")
    factories.workload(pool, "second", 1, 1, Tenant.objects.get(slug="bob"))
    factories.decision(pool)
    seal()
    at = utc_now()
    before = picture(at)
    second = tmp_path / "second.pool"
    manage("export_pool", "lab", str(second))
    empty()
    factories.tenant("carl")
    manage("import_pool", "lab", str(second))
    after = picture(at)
    assert {key for key in before if before[key] != after.get(key)} == set()
    assert "FAILS" not in manage("verify")


def test_a_second_pool_of_the_same_tenants_follows_the_first(tmp_path):
    filled()
    filled("grid")
    one, _ = exported(tmp_path)
    two, _ = exported(tmp_path, "grid")
    another_installation()
    assert "registered: ada, bob" in manage("import_pool", "lab", str(one))
    assert "present: ada, bob" in manage("import_pool", "grid", str(two))
    assert Membership.objects.filter(tenant__slug="ada").count() == 2
    assert LedgerImport.objects.count() == 2
    assert "FAILS" not in manage("verify")


def test_every_model_moves_or_stays_with_a_reason():
    ours = {
        model._meta.label
        for model in apps.get_models()
        if model.__module__.startswith("allocator_service.")
    }
    assert {table.label for table in TABLES} | set(STAYING) == ours
    assert {table.label for table in TABLES} & set(STAYING) == set()
    assert all(reason for reason in STAYING.values())


def test_a_pool_that_moves_refuses_every_change_and_is_read(tmp_path):
    pool = filled()
    exported(tmp_path)
    operator = factories.client("operator")
    counted = [model.objects.count() for model in (Seal, Event, AuditEntry, Block)]
    lab = "/api/v1/pools/lab"
    usage = {
        "source": "meter", "id": "late", "tenant": "bob", "resources": {"cpu": 1},
        "start": (utc_now() - timedelta(hours=2)).isoformat(),
        "end": (utc_now() - timedelta(hours=1)).isoformat(),
    }  # fmt: skip
    entry = operator.get("/api/v1/ledger-entries/?pool=lab").json()["results"][0]["id"]
    refused = [
        operator.post(f"{lab}/workloads/", {"tenant": "bob", "name": "n", "demand": {"cpu": 1}}),
        operator.post(f"{lab}/servers/", {"name": "n", "capacity": {"cpu": 1}}),
        operator.post(f"{lab}/groups/", {"slug": "n", "name": "N"}),
        operator.post(f"{lab}/usage/", [usage]),
        operator.post(f"{lab}/statements/", {"month": f"{this_month():%Y-%m}"}),
        operator.post(f"{lab}/runs/", {}),
        operator.post(f"{lab}/credit-notes/", {"tenant": "bob", "amount": "1", "reason": "r"}),
        operator.post(
            f"/api/v1/ledger-entries/{entry}/corrections/", {"quantity": "9", "reason": "r"}
        ),
    ]
    for answer in refused:
        assert (answer.status_code, answer.json()["code"]) == (409, "pool.moved"), answer.content
        assert "https://b.example.org" in answer.json()["detail"]
    with pytest.raises(Conflict, match="closed for changes"):
        month_close(pool=pool, month=month(f"{this_month():%Y-%m}", pool), now=utc_now())
    assert counted == [model.objects.count() for model in (Seal, Event, AuditEntry, Block)]
    assert operator.get(f"{lab}/").status_code == 200
    assert "FAILS" not in manage("verify")


def test_a_move_is_cancelled(tmp_path):
    pool = filled()
    exported(tmp_path)
    assert "open again" in manage("export_pool", "lab", "--cancel")
    used(pool, Tenant.objects.get(slug="bob"), "again", 1, utc_now() - timedelta(hours=1))
    assert Pool.objects.get(slug="lab").generation == pool.generation + 1
    with pytest.raises(CommandError, match="not closed for a move"):
        manage("export_pool", "lab", "--cancel")
    factories.decision(pool)


def test_an_export_replaces_no_file_and_leaves_none_if_it_fails(tmp_path):
    filled()
    file = tmp_path / "lab.pool"
    file.write_text("mine")
    with pytest.raises(CommandError, match="exists already"):
        manage("export_pool", "lab", str(file))
    assert file.read_text() == "mine"
    assert Pool.objects.get(slug="lab").moved_at is None
    with pytest.raises(CommandError, match="No such file"):
        manage("export_pool", "lab", str(tmp_path / "nowhere" / "lab.pool"))
    assert [each.name for each in tmp_path.iterdir()] == ["lab.pool"]
    with pytest.raises(CommandError, match=r"either a FILE or --cancel"):
        manage("export_pool", "lab")
