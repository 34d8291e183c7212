"""The worked month over REST: statements, their formats, and what closing needs."""

import csv
import hashlib
import io
import json
import re
import runpy
from decimal import Decimal

import pyarrow.parquet as pq
import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from allocator_service.billing.exports.focus import COLUMNS, focus_rows
from allocator_service.billing.models import Closing, Statement
from allocator_service.billing.statements.manifest import manifest_write
from allocator_service.billing.statements.paper import typesetting
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.models import Entry
from allocator_service.pools.member_services import members_admit
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import ApiKey, Tenant
from launcher.folders import PROJECT
from tests import factories
from tests.api.v1.billing.conftest import APRIL, MARCH, POOL, closed
from tests.api.v1.test_conventions import code
from tests.integration.billing.conftest import at, seal, used
from tests.statements import pdf_text
from tests.superuser import as_superuser

pytestmark = pytest.mark.django_db


def test_march_to_the_cent(march, operator, billing):
    open_ = billing.get(f"{POOL}/statements/{MARCH}/a/").json()
    assert (open_["state"], open_["totals"]["billed"]) == ("open", "102.03")
    month = closed(operator).json()
    assert [row["billed"] for row in month["accounts"]] == ["102.03", "-21.99", "-5.74", "-74.30"]
    a, b = (billing.get(f"{POOL}/statements/{MARCH}/{slug}/").json() for slug in "ab")
    assert (a["totals"]["billed"], b["totals"]["billed"]) == ("102.03", "-21.99")
    assert (a["savings"]["saved"], b["savings"]["saved"]) == ("7.34", "51.71")
    assert (a["state"], a["lines"]) == ("closed", open_["lines"])
    rows = billing.get(f"{POOL}/statements/").json()["results"]
    assert [(row["month"], row["tenant"], row["state"], row["billed"]) for row in rows] == [
        (MARCH, "a", "closed", "102.03"),
        (MARCH, "b", "closed", "-21.99"),
        (APRIL, "a", "open", None),
        (APRIL, "b", "open", None),
    ]


def test_open_statements_of_who_used_without_being_a_member_are_listed(march, operator, billing):
    """Their usage was taken with `non_members=accept`; closing the month bills it."""
    visitor = factories.tenant("visitor")
    used(march, visitor, march.memberships.earliest("id").tenant, 1, at(5), at(6))
    seal()
    totals_advance()
    rows = billing.get(f"{POOL}/statements/").json()["results"]
    listed = [(row["month"], row["tenant"]) for row in rows]
    assert listed == [
        (MARCH, "a"), (MARCH, "b"), (MARCH, "visitor"), (APRIL, "a"), (APRIL, "b")
    ]  # fmt: skip
    assert billing.get(f"{POOL}/statements/{MARCH}/visitor/").json()["state"] == "open"
    members_admit(pool=march, tenants=[visitor], now=at(1, 4))  # a member since, not in March
    factories.tenant("credited")
    note = {"tenant": "credited", "amount": "1", "reason": "an outage"}
    assert operator.post(f"{POOL}/credit-notes/", note).status_code == 201
    rows = billing.get(f"{POOL}/statements/?month={MARCH}").json()["results"]
    assert [row["tenant"] for row in rows] == ["a", "b", "credited", "visitor"]
    closed(operator)
    rows = billing.get(f"{POOL}/statements/?month={MARCH}").json()["results"]
    assert [(row["tenant"], row["state"]) for row in rows] == [
        ("a", "closed"), ("b", "closed"), ("credited", "closed"), ("visitor", "closed")
    ]  # fmt: skip


def test_open_statements_of_late_usage_are_listed(march, operator, billing):
    """Usage of a closed month is on the open month's statement, whoever used and lent."""
    closed(operator)
    visitor = factories.tenant("visitor")
    used(march, visitor, march.memberships.earliest("id").tenant, 1, at(5), at(6))
    seal()
    rows = billing.get(f"{POOL}/statements/?month={APRIL}").json()["results"]
    assert [row["tenant"] for row in rows] == ["a", "b", "visitor"]
    members_admit(pool=march, tenants=[visitor], now=at(1, 5))  # who is no member sees no pool
    own = factories.client("tenant", visitor).get(f"{POOL}/statements/")
    assert [(row["month"], row["tenant"]) for row in own.json()["results"]] == [(APRIL, "visitor")]
    (line,) = billing.get(f"{POOL}/statements/{APRIL}/visitor/").json()["lines"]
    assert line["adjusts"] == MARCH


def test_a_correction_is_on_the_next_statement(march, operator, billing, clock):
    closed(operator)
    before = billing.get(f"{POOL}/statements/{MARCH}/a/").content
    lent = Entry.objects.get(start=at(15), end=at(20))
    corrected = operator.post(
        f"/api/v1/ledger-entries/{lent.pk}/corrections/",
        {"quantity": "2.5", "reason": "the third core ran half of the time"},
    )
    seal()
    line = billing.get(f"{POOL}/statements/{APRIL}/a/").json()["lines"][0]
    assert (line["kind"], line["billed"], line["adjusts"]) == ("adjustment", "-2.40", MARCH)
    assert line["entry"] == corrected.json()["id"]
    assert billing.get(f"{POOL}/statements/{APRIL}/b/").json()["totals"]["billed"] == "2.16"
    clock(at(2, 5))
    accounts = closed(operator, APRIL).json()["accounts"]
    assert [row["billed"] for row in accounts] == ["-2.40", "2.16", "0.24", "0.00"]
    assert billing.get(f"{POOL}/statements/{MARCH}/a/").content == before


def test_every_format_has_the_same_lines(march, operator, billing):
    closed(operator)
    path = f"{POOL}/statements/{MARCH}/a/"
    lines = billing.get(path).json()["lines"]
    ndjson = [json.loads(row) for row in billing.get(f"{path}?format=ndjson").content.splitlines()]
    assert ndjson == lines
    rows = list(csv.DictReader(io.StringIO(billing.get(f"{path}?format=csv").content.decode())))
    assert [row["billed"] for row in rows] == [line["billed"] for line in lines]
    assert sum(Decimal(row["billed"]) for row in rows) == Decimal("102.03")
    page = billing.get(f"{path}?format=html")
    assert page["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page["Content-Security-Policy"]
    for text in ("102.03", "7.34", "14.40", "on servers of b", "Europe/Berlin"):
        assert text in page.content.decode()


def test_a_parquet_file_has_the_lines_of_the_statement(march, operator, billing):
    closed(operator)
    path = f"{POOL}/statements/{MARCH}/a/"
    answer = billing.get(f"{path}?format=parquet")
    assert answer["Content-Type"] == "application/vnd.apache.parquet"
    rows = pq.read_table(io.BytesIO(answer.content)).to_pylist()
    lines = billing.get(path).json()["lines"]
    assert [row["billed"] for row in rows] == [Decimal(line["billed"]) for line in lines]
    assert [row["hours"] for row in rows] == [Decimal(line["hours"]) for line in lines]
    assert [(row["number"], row["resource"]) for row in rows] == [
        (line["number"], line["resource"]) for line in lines
    ]
    assert code(billing.get(f"{POOL}/statements/{APRIL}/nobody/?format=parquet"))[0] == 404


def test_a_pdf_file_has_the_amounts_of_the_statement(march, operator, billing, clock):
    """For every caller, those of the JSON document that it reads, whose digest is in the file."""
    path = f"{POOL}/statements/{MARCH}/a/"
    assert "open" in pdf_text(billing.get(f"{path}?format=pdf").content)
    closed(operator)
    stored = Statement.objects.get(tenant__slug="a")
    own = factories.client("tenant", stored.tenant)
    ApiKey.objects.update(expires_at=at(1, year=2030))
    texts = []
    for caller in (billing, own):
        answer = caller.get(f"{path}?format=pdf")
        assert answer["Content-Type"] == "application/pdf"
        assert answer["Cache-Control"] == caller.get(path)["Cache-Control"]
        assert answer.content == caller.get(path, Accept="application/pdf").content
        document = caller.get(path)
        texts.append(pdf_text(answer.content))
        assert hashlib.sha256(document.content).hexdigest() in texts[-1]
        for line in document.json()["lines"]:
            assert f"{Decimal(line['hours']):,f}\ncore-hours" in texts[-1]
            assert f"{line['price']} {line['billed']}" in texts[-1]
        assert "Total 102.03 EUR" in texts[-1]
    assert hashlib.sha256(bytes(stored.document)).hexdigest() in texts[0]
    assert "on servers of b" in texts[0]
    assert "on servers of b" not in texts[1]
    before = billing.get(f"{path}?format=pdf").content
    clock(at(9, 7))
    assert billing.get(f"{path}?format=pdf").content == before


def test_a_statement_to_read_has_the_names_of_its_pool_and_tenant(march, operator, billing):
    """Machines get the slugs, and the file is made from their document alone."""
    closed(operator)
    path = f"{POOL}/statements/{MARCH}/a/"
    before = {each: billing.get(f"{path}?format={each}").content for each in ("json", "csv", "pdf")}
    Tenant.objects.filter(slug="a").update(name="Astronomy & co")
    Pool.objects.update(name="The laboratory")
    page = billing.get(path, Accept="text/html").content.decode()
    assert "<dd>Astronomy &amp; co (a)</dd>" in page
    assert "<dd>The laboratory (lab)</dd>" in page
    for each, content in before.items():
        assert billing.get(f"{path}?format={each}").content == content
    assert hashlib.sha256(before["json"]).hexdigest() in pdf_text(before["pdf"])


def test_a_pdf_file_is_for_those_who_read_the_statement(march, operator):
    closed(operator)
    b = factories.client("tenant", march.memberships.get(tenant__slug="b").tenant)
    ApiKey.objects.update(expires_at=at(1, year=2030))
    for slug in ("a", "nobody"):
        path = f"{POOL}/statements/{MARCH}/{slug}/"
        refused, as_json = b.get(f"{path}?format=pdf"), b.get(path)
        assert code(refused) == code(as_json) == (404, "statement.not_found")
        assert refused["Content-Type"] == as_json["Content-Type"]


def test_a_pdf_file_of_more_lines_than_one_may_have_is_refused(
    march, operator, billing, monkeypatch
):
    closed(operator)
    monkeypatch.setattr(typesetting, "MAX_ROWS", 2)
    path = f"{POOL}/statements/{MARCH}/a/"
    assert code(billing.get(f"{path}?format=pdf")) == (413, "statement.pdf_too_large")
    assert billing.get(f"{path}?format=csv").status_code == 200


def test_focus_rows_are_those_of_the_statements(march, operator, billing):
    """The same rows and totals as CSV, NDJSON and Parquet, and from the JSON documents alone."""
    closed(operator)
    path = f"{POOL}/months/{MARCH}/focus/"
    assert billing.get(f"{POOL}/months/{APRIL}/focus/?format=csv").status_code == 404
    text = billing.get(f"{path}?format=csv").getvalue().decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 8
    assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal("102.03") - Decimal("21.99")
    lines = billing.get(f"{path}?format=ndjson").getvalue().splitlines()
    assert [{k: v or "" for k, v in json.loads(line).items()} for line in lines] == rows
    documents = [billing.get(f"{POOL}/statements/{MARCH}/{slug}/").json() for slug in "ab"]
    assert [row for each in documents for row in focus_rows(each)] == [json.loads(x) for x in lines]
    table = pq.read_table(io.BytesIO(billing.get(f"{path}?format=parquet").getvalue()))
    assert table.column_names == list(COLUMNS["1.4"])
    assert table["BilledCost"].to_pylist() == [Decimal(row["BilledCost"]) for row in rows]
    assert table["ChargePeriodStart"].to_pylist()[0] == at(1)
    first = rows[0]
    assert (first["ChargeCategory"], first["ConsumedQuantity"], first["ConsumedUnit"]) == (
        "Usage", "2736", "core-Hours",
    )  # fmt: skip
    credit = next(row for row in rows if row["ChargeCategory"] == "Credit")
    assert (credit["SubAccountId"], credit["x_User"], credit["BilledCost"]) == ("b", "a", "-12.96")
    assert first["AllocatedMethodId"] == "drfh/divisible"


def test_an_auditor_comes_to_the_manifests_digest(march, operator, billing):
    closed(operator)
    path = f"{POOL}/months/{MARCH}/manifest/"
    assert billing.get(path).json()["code"] == "manifest.not_found"
    manifest_write(closing=Closing.objects.get())
    manifest = billing.get(path).json()
    feed = billing.get("/api/v1/ledger-entries/?pool=lab&format=ndjson&limit=1000").content
    assert manifest["sha256"] == hashlib.sha256(feed).hexdigest()
    assert manifest["rows"] == 6


def test_closing_twice_and_what_is_missing(march, operator, clock):
    first = closed(operator)
    again = operator.post(f"{POOL}/statements/", {"month": MARCH})
    assert (again.status_code, again.content) == (200, first.content)
    refused = operator.post(f"{POOL}/statements/", {"month": APRIL})
    assert (refused.status_code, refused.json()["code"]) == (409, "statement.month_not_over")
    month = operator.get(f"{POOL}/months/{APRIL}/").json()
    assert [each["code"] for each in month["missing"]] == ["statement.month_not_over"]
    assert operator.post(f"{POOL}/statements/", {"month": "2027-13"}).status_code == 422
    assert Closing.objects.count() == 1


def test_the_report_ties_out(march, operator, billing):
    path = f"{POOL}/reports/billing/?from=2027-03-02T00:00:00Z&to=2027-04-02T00:00:00Z"

    def ties():
        document = billing.get(path).json()
        assert {tie["difference"] for tie in document["ties"]} == {"0"}
        return [
            tuple(
                tie[n] for n in ("tenant", "ledger", "statements", "not_yet_billed", "not_billable")
            )
            for tie in document["ties"]
        ]

    a, b = str(5679 * 3600), str(2972 * 3600)
    assert ties() == [("a", a, "0", a, "0"), ("b", b, "0", b, "0")]
    closed(operator)
    assert ties() == [("a", a, a, "0", "0"), ("b", b, b, "0", "0")]
    tenant_a = march.memberships.order_by("id").first().tenant
    entry = used(march, tenant_a, None, 1, at(2), at(3))  # no price for the pool's servers
    lent = Entry.objects.get(start=at(15), end=at(20))
    operator.post(
        f"/api/v1/ledger-entries/{lent.pk}/corrections/", {"quantity": 2.5, "reason": "x"}
    )
    seal()
    late = str(-60 * 3600)
    assert ties()[0] == ("a", str((5679 - 60 + 24) * 3600), a, late, str(24 * 3600))
    tie = billing.get(path).json()["ties"][0]
    assert tie["reason"] == "no_price"
    assert str(entry) in tie["unbillable_entries"]
    assert len(tie["late_entries"]) == 1
    document = billing.get(path).json()
    assert [(row["tenant"], row["billed"]) for row in document["accounts"]] == [
        ("a", "99.63"),
        ("b", "-19.83"),
    ]
    rows = list(csv.DictReader(io.StringIO(billing.get(f"{path}&format=csv").content.decode())))
    assert [row["ledger"] for row in rows] == [row["ledger"] for row in document["ties"]]
    assert billing.get(f"{path}&format=svg").content.startswith(b"<svg")
    assert billing.get(f"{path}&step=P1D").status_code == 400


def test_a_retired_pool_is_closed_and_read_to_its_last_month(march, operator, billing, clock):
    closed(operator)
    paths = (f"statements/{MARCH}/a/", f"months/{MARCH}/", f"months/{MARCH}/focus/?format=csv")
    before = {path: b"".join(billing.get(f"{POOL}/{path}")) for path in paths}
    plan, *_ = billing.get(f"/api/v1/price-plans/?pool={march.slug}").json()["results"]
    used(march, march.memberships.first().tenant, None, 1, at(1, 4), at(2, 4))
    seal()
    operator.delete(f"{POOL}/", If_Match=operator.get(f"{POOL}/")["ETag"])
    assert operator.get(f"{POOL}/").status_code == 404
    clock(at(2, 5))
    closed(operator, APRIL)
    for path, content in before.items():
        assert b"".join(billing.get(f"{POOL}/{path}")) == content
    rows = billing.get(f"{POOL}/statements/?state=closed").json()["results"]
    assert {row["month"] for row in rows} == {MARCH, APRIL}
    report = billing.get(
        f"{POOL}/reports/billing/?from=2027-03-01T00:00:00Z&to=2027-05-01T00:00:00Z"
    )
    assert report.status_code == 200
    assert billing.get(f"{POOL}/credit-notes/").status_code == 200
    note = {"tenant": "a", "amount": "1", "reason": "kindness"}
    note = operator.post(f"{POOL}/credit-notes/", note).json()
    back = operator.post(f"{POOL}/credit-notes/{note['id']}/reverse/", {"reason": "a mistake"})
    assert (back.status_code, back.json()["amount"]) == (201, "-1.00")
    assert operator.post(f"{POOL}/budgets/", {"tenant": "a", "amount": "1"}).status_code == 404
    path = f"/api/v1/price-plans/{plan['id']}/"
    assert billing.get(path).json() == plan
    refused = operator.patch(path, {"name": "other"}, If_Match="*")
    assert (refused.status_code, refused.json()["code"]) == (404, "pool.not_found")
    eve = factories.client("tenant", factories.tenant("eve"))
    ApiKey.objects.update(expires_at=at(1, year=2030))
    assert eve.get(f"{POOL}/statements/").status_code == 404


def test_pages_of_statements_miss_and_repeat_nothing_while_members_join(march, operator, billing):
    closed(operator)
    first = billing.get(f"{POOL}/statements/?limit=2").json()
    operator.post("/api/v1/tenants/", {"slug": "aaa", "name": "First by name"})
    operator.put(f"{POOL}/members/aaa/", {"weight": 1})
    rows, following = first["results"], first["next"]
    while following:
        page = billing.get(following.removeprefix("http://testserver")).json()
        rows, following = rows + page["results"], page["next"]
    named = [(row["month"], row["tenant"]) for row in rows]
    assert named == sorted(set(named))
    whole = billing.get(f"{POOL}/statements/").json()["results"]
    assert {(row["month"], row["tenant"]) for row in whole} - set(named) <= {(MARCH, "aaa")}


def test_a_closed_month_is_verified(march, operator, billing):
    path = f"{POOL}/months/{MARCH}/verify/"
    assert operator.post(path).json()["code"] == "statement.not_found"
    closed(operator)
    seal()
    answer = billing.post(path)
    assert (answer.status_code, answer.json()["valid"]) == (200, True)
    names = [check["name"] for check in answer.json()["checks"]]
    assert names == [
        "statements", "statement_lines", "postings", "price_plans", "audit", "manifests",
    ]  # fmt: skip
    as_superuser("UPDATE billing_statement SET billed = billed + 0.01 WHERE billed > 0")
    answer = billing.post(path).json()
    failed = {check["name"]: check["detail"] for check in answer["checks"] if not check["holds"]}
    assert answer["valid"] is False
    assert failed == {
        "statements": "2027-03 of pool lab: the statement of a does not bill the amount of its document"
    }


@pytest.mark.django_db(transaction=True)
def test_an_auditor_recomputes_the_digest_of_a_statement_from_the_chain(march, operator, billing):
    """The block that a closing adds is of exported lines, and names the stored bytes' SHA-256."""
    closed(operator)
    seal()
    url = "/api/v1/ledger-entries/export/?format=ndjson&pool=lab"
    entries = b"".join(billing.get(url).streaming_content).decode().splitlines(keepends=True)
    blocks = billing.get("/api/v1/ledger-blocks/?pool=lab").json()["results"]
    lines = [json.dumps(block) for block in blocks]
    recompute = runpy.run_path(str(PROJECT / "docs/examples/recompute_chain.py"))["recompute"]
    assert list(recompute(iter(entries), iter(lines), [])) == []
    digests = {(each["document"], each["name"]): each["sha256"] for each in blocks[-1]["digests"]}
    stored = Statement.objects.get(tenant__slug="a")
    sha256 = hashlib.sha256(bytes(stored.document)).hexdigest()
    assert digests["statement", "2027-03/a"] == sha256
    blocks[-1]["digests"][0]["sha256"] = sha256[::-1]
    lines = [json.dumps(block) for block in blocks]
    assert list(recompute(iter(entries), iter(lines), [])) == [
        f"block {blocks[-1]['number']} has another digest"
    ]


def test_the_admin_offers_a_month_in_the_columns_of_focus_as_the_api_exports_it(
    march, operator, billing
):
    closed(operator)
    closing = Closing.objects.get()
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("finance"))
    page = browser.get(f"/admin/billing/closing/{closing.pk}/change/").content.decode()
    links = re.findall(r'href="([^"]+/focus/([^/]+)/)"', page)
    assert [version for _, version in links] == ["1.4", "1.2"]
    for link, version in links:
        answer = browser.get(link)
        exported = billing.get(f"{POOL}/months/{MARCH}/focus/?format=csv&version={version}")
        assert answer.getvalue() == exported.getvalue()
        name = f"focus-{version}-lab-{MARCH}.csv"
        assert answer["Content-Disposition"] == f'attachment; filename="{name}"'
    assert browser.get(links[0][0].replace("1.4", "1.9")).status_code == 404
