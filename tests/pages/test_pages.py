"""What the pages say: the numbers of the API, reasons in sentences, and help where there is nothing."""

import dataclasses
import html
import re
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
import time_machine
from django.conf import settings
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from allocator_service.allocation.long_term.metering import pool_meter
from allocator_service.allocation.models import Run, RunStatus
from allocator_service.allocation.words import sharing_text
from allocator_service.core.clock import utc_now
from allocator_service.core.display import instant_text, number_text
from allocator_service.enforcement.services import TenantReport
from allocator_service.enforcement.watching import enforcement_watch
from allocator_service.workloads.reason_texts import (
    OPERATOR,
    TENANT,
    Reader,
    reason_text,
    remedy_text,
    stopped_text,
)
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from api.limiter import limiter
from api.pages import views
from api.pages import workloads as workloads_pages
from api.pages.parts import without_dust
from policies import REASONS
from policies.__main__ import main
from tests import factories
from tests.api.v1.billing.conftest import plan, published
from tests.integration.billing.conftest import seal
from tests.pages.browser import Browser, browser_of

pytestmark = pytest.mark.django_db(transaction=True)

LAB = "/my/pools/lab/"
ERRORS = Path("docs/guides/errors.md")


def words(text):
    """What of a page is read where tables have room for their headers, in one line."""
    content = re.sub('<span class="cell-label">.*?</span>', "", text)
    content = re.sub("<[^>]+>", " ", content.partition("<main")[2].partition(">")[2])
    return re.sub(" +([.,:;?)])", r"\1", " ".join(html.unescape(content).split()))


def values(text):
    """The exact numbers behind those of a page."""
    return re.findall('<data value="([^"]+)"', text)


@pytest.fixture
def decided(world):
    world.run = factories.decision(world.lab)
    return world


@pytest.fixture
def ada(world):
    return browser_of(world.as_ada)


def test_decisions_stay_while_a_clock_that_was_set_back_catches_up(
    decided, ada, settings, tmp_path
):
    shown = words(ada.text("/my/"))
    clock = tmp_path / "clock"
    clock.write_text("-3600")
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, clock_file=str(clock))
    assert decided.run.finished_at > utc_now()
    assert words(ada.text("/my/")) == shown


def test_the_numbers_are_those_of_the_api(decided, ada):
    as_ada = decided.as_ada
    [row] = as_ada.get("/api/v1/pools/lab/entitlements/").json()["tenants"]
    [mine] = as_ada.get("/api/v1/pools/lab/allocations/").json()["results"]
    shown = values(ada.text(LAB).partition('<table class="amounts stacked">')[2])
    names = ("entitled", "has", "lent", "borrowed", "unused")
    table = [row[name][resource] for name in names for resource in ("cpu", "memory")]
    assert shown[: len(table)] == table
    assert [float(amount) for amount in table[:4]] == pytest.approx([7, 7, 2, 10])
    assert str(mine["tasks"]) in shown
    text = words(ada.text(LAB))
    assert "You may run 10 analysis." in text
    assert "2 cores allocated; 7 cores entitled, of which 3 cores lent." in text
    assert "Entitled 7 cores 7 GiB Allocated 2 cores 10 GiB Used now not known" in text
    assert "Runs 10 of as many as it can one task: 0.2 cores, 1 GiB memory" in text
    assert re.search(r"You lend to member-[0-9a-f]{12} \( ?3 cores\)", text)
    assert f"Generation {decided.run.generation} is decided, in force since" in text
    assert "It is current." in text
    assert "cpu 2 cores memory 10 GiB Allocated to you since" in words(ada.text("/my/"))


def test_what_runs_is_what_an_agent_said_last(decided, ada):
    report = factories.enforcement_report(decided.run)
    assert "No agent reports" not in words(ada.text(LAB))
    assert "Used now 0 cores 0 GiB" in words(ada.text(LAB))
    with time_machine.travel(report.agent.received_at + timedelta(minutes=2)):
        assert "The agent has been silent since" in words(ada.text(LAB))


def test_jobs_that_the_scheduler_keeps_waiting_are_shown_with_its_reason(decided, ada):
    factories.blocked(decided.run, "ada")
    shown = words(ada.text(LAB))
    assert "although you use less than is allocated to you" in shown
    assert "The scheduler's reason: AssocGrp<b>Limit." in shown
    factories.enforcement_report(decided.run)
    enforcement_watch(pool=decided.run.pool, now=utc_now())
    assert "although you use less" not in words(ada.text(LAB))


def test_the_use_counts_pieces_if_tasks_have_several(decided, ada):
    """An agent reports each node of a job."""
    rows = [TenantReport("ada", {}, {}, 3, 0, [])]
    factories.enforcement_report(decided.run, tenants=rows)
    assert "0 tasks running, 3 waiting" in words(ada.text(LAB))
    decided.ada_workload.pieces = [{"count": 2, "demand": {"cpu": "0.1"}}]
    decided.ada_workload.save()
    assert "0 pieces running, 3 waiting" in words(ada.text(LAB))


@pytest.mark.parametrize("minimum", ["PT30M", ""])
def test_the_page_states_until_when_tasks_keep_their_servers(world, minimum):
    world.lab.policy_mode, world.lab.minimum_run = "indivisible", minimum
    world.lab.save()
    factories.decision(world.lab)
    ada = browser_of(world.as_ada)
    sentence = re.compile(r"[0-9]+ tasks? of (\w+) keeps? (?:its|their) servers? until [^.]*\.")
    found = sentence.search(words(ada.text(LAB)))
    if not minimum:
        assert found is None
        return
    assert found is not None
    assert found[1] == "analysis"
    assert "Tasks of others keep" not in words(ada.text(LAB))
    assert found[0] in words(ada.text(f"{LAB}why/"))


def test_the_last_seven_days_are_those_of_the_report(decided, ada):
    later = datetime.now(UTC) + timedelta(hours=3)
    pool_meter(pool_id=decided.lab.pk, now=later)
    seal()
    with time_machine.travel(later, tick=False):
        text = ada.text(LAB)
        [row] = decided.as_ada.get("/api/v1/pools/lab/reports/sharing-degree/").json()["tenants"]
    assert f'<data value="{row["sharing_degree"]["min"]:.12g}"' in text
    assert "Of every resource you used at least" in words(text)
    assert "Sharing paid off." in words(text)
    assert text.count("<figure") - 1 == text.count("as a table</summary>") == 2
    assert "<title>used, " in text  # appears when the line is pointed at
    with time_machine.travel(later + timedelta(hours=1), tick=False):
        assert "Metering is late: allocations since" in words(ada.text(LAB))


def test_every_reason_has_a_sentence_and_those_of_the_guide():
    for reason in (*REASONS, "resource:cpu", "limit:lend", "limit:tenant", "limit:group:ml"):
        for reader in (TENANT, OPERATOR, Reader(groups=())):
            assert reason_text(reason, reader)[-1] == remedy_text(reason, reader)[-1] == "."
            assert stopped_text([reason], reader)
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", ERRORS.read_text(), re.MULTILINE)
    told = {code: (says, what_helps) for code, says, what_helps in rows if code in REASONS}
    assert told.keys() == REASONS.keys()
    for code in REASONS:
        assert reason_text(code, OPERATOR) == told[code][0]
    assert reason_text("level", TENANT).startswith("You have the level")
    assert "above yours" in reason_text("limit:group:ml", Reader(groups=("physics",)))


def test_a_workload_says_why_and_what_was_tried_to_help(decided, ada):
    text = ada.text(LAB)
    assert "All of cpu is used up on the servers it may run on. More cpu in the pool." in words(
        text
    )
    [link] = re.findall('href="(/my/pools/lab/why/[?]workload=[^"]+)"', text)
    explained = decided.as_ada.get(f"/api/v1/runs/{decided.run.pk}/explanation/ada/").json()
    for path in (link, "/my/pools/lab/why/"):
        why = words(ada.text(path))
        assert explained["sentence"] in why
        [help_] = explained["counterfactuals"]
        assert f"With {help_['words']}, analysis would run" in why
        assert f'<data value="{help_["tasks_after"]:.12g}"' in ada.text(path)
        assert help_["tasks_after"] > 10
    assert why.index("What would help") < why.index("The decision in force")


def test_an_explanation_names_the_groups_above_the_tenant_and_no_other(world, ada):
    for slug, parent in (("science", None), ("ml", "science"), ("bio", "science")):
        factories.group(world.lab, slug, parent)
    factories.member(world.lab, world.ada, "ml")
    factories.member(world.lab, world.bob, "bio")
    factories.decision(world.lab)
    why = words(ada.text("/my/pools/lab/why/"))
    assert "Your group ml, part of science Your weight" in why
    assert "bio" not in why


def test_explaining_has_the_places_of_the_tenants_evaluations(decided, ada):
    with ExitStack() as held:
        for _ in range(settings.ENVIRONMENT.evaluations_at_once):
            assert held.enter_context(limiter().evaluation(holder="tenant:ada"))
        refused = ada.get("/my/pools/lab/why/")
        assert (refused.status_code, refused["Retry-After"]) == (429, "1")
    assert ada.get("/my/pools/lab/why/").status_code == 200


def test_where_there_is_nothing_yet_a_page_says_what_to_do(operator):
    new = factories.tenant("new")
    browser = browser_of(factories.client("tenant", new))
    assert "New is not a member of any pool yet." in words(browser.text("/my/"))
    lab = factories.pool("lab")
    operator.put("/api/v1/pools/lab/members/new/", {})
    assert "No decision has been made yet." in words(browser.text("/my/"))
    text = words(browser.text(LAB))
    for said in (
        "No decision has been made yet. The first one follows within seconds",
        "Submit a workload You have none here yet.",
        "You have brought none to this pool.",
        "There are no statements: no prices have been published for this pool.",
    ):
        assert said in text
    assert "so there is nothing to explain" in words(browser.text(f"{LAB}why/"))
    assert "Submit a workload You have no workloads here." in words(
        browser.text(f"{LAB}workloads/")
    )
    factories.server(lab, "s", 4, 4, None)
    factories.workload(lab, "w", 1, 1, factories.tenant("other"))
    factories.decision(lab)
    assert "You have no workloads here yet: submit one to use your part." in words(
        browser.text(LAB)
    )
    assert "Nothing of yours is in the decision in force." in words(browser.text("/my/"))
    assert "You had no active workload when this decision was made." in words(
        browser.text(f"{LAB}why/")
    )
    factories.workload(lab, "late", 1, 1, new)
    text = words(browser.text(LAB))
    assert "It came after the decision in force; the next decision includes it." in text
    assert "The pool is 1 generation ahead of it." in text


def test_a_changed_policy_and_a_failed_run_are_said(decided, ada, operator):
    tag = operator.get("/api/v1/pools/lab/")["ETag"]
    operator.patch("/api/v1/pools/lab/", {"policy": {"name": "h-mrf"}}, If_Match=tag)
    now = datetime.now(UTC)
    Run.objects.create(
        pool=decided.lab, status=RunStatus.FAILED, created_at=now, finished_at=now,
        error={"code": "solve.failed", "detail": "bobtext"},
    )  # fmt: skip
    text = words(ada.text(LAB))
    assert "under the policy “Fair shares on real servers (DRFH)”" in text
    assert "The pool's policy has changed since to “Fair over time (H-MRF)”." in text
    assert "; the next decision is due at " in text
    assert "The newest computation failed." in text
    assert "bobtext" not in text


def test_who_takes_turns_sees_the_present_and_the_next_slot(operator):
    ada, bob = factories.tenant("ada"), factories.tenant("bob")
    turns = factories.pool("turns", policy="tda")
    factories.server(turns, "s", 15, 15, None)
    factories.workload(turns, "a", 5, 2, ada)
    factories.workload(turns, "b", 3, 3.5, bob)
    run = factories.decision(turns)
    as_ada = factories.client("tenant", ada)
    browser = browser_of(as_ada)
    with time_machine.travel(run.effective_from + timedelta(seconds=1), tick=False):
        text = words(browser.text("/my/pools/turns/"))
        slot = as_ada.get("/api/v1/pools/turns/decision/").json()["slot"]
        listed, mine = (
            words(browser.text(path)) for path in ("/my/pools/turns/workloads/", "/my/")
        )
    # What a page shows is of the present slot or an average, and says which.
    assert "on average of as many as it can" in listed
    assert "Allocated to you in the present slot of the decision in force since" in mine
    part = re.search("Allocated (\\S+ cores) (\\S+ GiB)", text)
    assert part is not None
    assert f"cpu {part[1]} memory {part[2]}" in mine
    start, end = (datetime.fromisoformat(slot[name]) for name in ("start", "end"))
    rows = ", ".join(f"{row['tasks']} tasks of a" for row in slot["allocations"])
    assert (
        f"Now {instant_text(start, precision='second')} to {end:%H:%M:%S} UTC: {rows}"
        in text.replace("1 task of", "1 tasks of")
    )
    assert f"Your next slot {instant_text(end, precision='second')} to " in text
    assert "on average of as many as it can" in text
    assert "b:" not in text
    assert "3 tasks of b" not in text


def test_a_pool_that_takes_reports_says_that_it_does():
    ada = factories.tenant("ada")
    pool = factories.pool("reported", metering="reported")
    factories.server(pool, "s", 4, 4, ada)
    factories.workload(pool, "w", 1, 1, ada)
    factories.decision(pool)
    text = words(browser_of(factories.client("tenant", ada)).text("/my/pools/reported/"))
    assert (
        "No agent reports what you run now. This pool counts the usage that is reported to it."
        in text
    )
    assert "what would have been used alone is not known." in text
    assert "Nothing of yours was metered in these days: this pool counts usage" in text


def test_a_statement_is_the_page_that_the_api_has(decided, ada, operator):
    month = f"{datetime.now(UTC):%Y-%m}"
    start = f"{month}-01T00:00:00Z"
    published(operator, plan(start))
    assert f'href="{LAB}statements/{month}/"' in ada.text(LAB)
    assert "open 0.00 EUR so far" in words(ada.text(f"{LAB}statements/"))
    assert "open 0.00 EUR so far" in words(ada.text(LAB))
    with time_machine.travel(datetime.now(UTC), tick=False):
        page = ada.get(f"{LAB}statements/{month}/")
        same = decided.as_ada.get(f"/api/v1/pools/lab/statements/{month}/ada/", Accept="text/html")
        paper = ada.get(f"{LAB}statements/{month}/?format=pdf")
        as_pdf = decided.as_ada.get(f"/api/v1/pools/lab/statements/{month}/ada/?format=pdf")
    assert page.status_code == 200
    links = re.search(r'<nav aria-label="This statement">.*</nav>\n', page.content.decode())
    assert links is not None
    assert page.content.decode().replace(links.group(), "") == same.content.decode()
    assert f'href="{LAB}statements/"' in links.group()
    assert 'href="?format=pdf"' in links.group()
    assert page["Content-Security-Policy"] == same["Content-Security-Policy"]
    assert ada.get(f"{LAB}statements/1999-01/").status_code == 404
    assert paper.content == as_pdf.content
    assert paper.content.startswith(b"%PDF-")
    name = f"statement-lab-{month}-ada.pdf"
    assert paper["Content-Disposition"] == f'attachment; filename="{name}"'
    assert paper["Cache-Control"] == "no-store"
    assert ada.get(f"{LAB}statements/1999-01/?format=pdf").status_code == 404


def test_a_proof_is_taken_home_and_verifies_until_it_is_pruned(world, tmp_path):
    world.lab.transparent = True
    world.lab.save()
    run = factories.decision(world.lab)
    ada = browser_of(world.as_ada)
    [link] = re.findall(f'href="({LAB}decisions/[^"]+/proof/)" download', ada.text(LAB))
    proof = ada.get(link)
    assert proof["Content-Disposition"] == f'attachment; filename="proof-{run.pk}.json"'
    assert proof.json() == world.as_ada.get(f"/api/v1/runs/{run.pk}/proof/").json()
    file = tmp_path / "proof.json"
    file.write_bytes(proof.content)
    assert main(["verify", str(file)]) == 0
    Run.objects.filter(pk=run.pk).update(pruned_at=datetime.now(UTC))
    pruned = ada.get(link)
    assert pruned.status_code == 410
    assert "This part of the run is no longer kept." in words(pruned.content.decode())


NAMES = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; DROP TABLE pool; --",
    "{{ 7|add:7 }}{% debug %}",
    "Ünïcödé 名前 🦆 \u202eesrever",
    "x" * 253,
    "&lt;b&gt;",
    "</title></svg>",
]


def test_names_are_text_whatever_stands_in_them(world):
    world.lab.name = NAMES[1][:200]
    world.lab.save()
    world.ada.name = NAMES[0]
    world.ada.save()
    for number, name in enumerate(NAMES):
        factories.workload(world.lab, name, 1, 1, world.ada)
        labels = {f"l{number}": name[:60]}
        factories.server(world.lab, f"<i>{number}", 1, 1, world.ada, labels=labels)
    factories.decision(world.lab)
    ada = browser_of(world.as_ada)
    for path in ("/my/", LAB, f"{LAB}workloads/", f"{LAB}why/", f"{LAB}statements/"):
        text = ada.text(path)
        for piece in ("<script>", "<img", "<i>", "</title></svg", "onerror=alert(1)>"):
            assert piece not in text, (path, piece)
    text = html.unescape(ada.text(f"{LAB}workloads/"))
    for name in NAMES:
        assert f"<h2>{name}</h2>" in text


def test_many_workloads_come_in_pages_by_as_many_queries_as_one(world):
    def asked(path):
        with CaptureQueriesContext(connection) as queries:
            ada.text(path)
        return len(queries)

    for name in ("first", "second"):  # which also meters the first
        factories.server(world.lab, name, 1, 1, None)
        factories.workload(world.lab, f"{name}-work", 0.1, 0.1, world.ada)
        factories.decision(world.lab)
    ada = browser_of(world.as_ada)
    paths = ("/my/", LAB, f"{LAB}workloads/")
    for path in paths:
        ada.text(path)
    few = [asked(path) for path in paths]
    many = [WorkloadDraft(world.ada, f"w-{n}", factories.vector(0.1, 0.1)) for n in range(4_997)]
    workloads_submit(pool=world.lab, drafts=many, now=datetime.now(UTC))
    for number in range(20):
        factories.server(world.lab, f"s-{number}", 1 + number, 1, world.ada)
        factories.workload(factories.pool(f"pool-{number}"), "w", 1, 1, world.ada)
    factories.decision(world.lab)
    assert [asked(path) for path in paths] == few
    assert max(few) <= 53
    seen, path = [], f"{LAB}workloads/"
    while path:
        text = ada.text(path)
        seen += re.findall("<h2>(.*?)</h2>", text)
        following = re.search(r'href="(\?cursor=[^"]+)" rel="next"', text)
        path = f"{LAB}workloads/{following[1]}" if following else ""
    assert len(seen) == 5_000
    assert len(set(seen)) == 5_000
    for cursor in ("x", "a" * 3_000, "%00", ""):
        assert ada.get(f"{LAB}workloads/?cursor={cursor}").status_code == 400


def test_without_the_database_there_is_a_page_that_says_so(decided, ada):
    def away(*arguments):
        raise OperationalError("connection refused at 10.1.2.3")

    for path in ("/my/", LAB, f"{LAB}why/"):
        with connection.execute_wrapper(away):
            answer = ada.get(path)
        assert answer.status_code == 503, path
        assert answer["Retry-After"] == "1"
        text = answer.content.decode()
        assert "Load the page again in a moment; nothing was changed." in words(text)
        assert "10.1.2.3" not in text
        assert "Traceback" not in text


def test_a_mistake_of_ours_is_a_page_with_the_number_of_the_request(decided, ada, settings):
    def broken(*arguments):
        raise ZeroDivisionError("secret")

    for debug in (False, True):
        settings.DEBUG = debug
        with connection.execute_wrapper(broken):
            answer = ada.get(LAB, X_Request_Id="mine-1")
        assert answer.status_code == 500
        text = answer.content.decode()
        assert "Number of the request: mine-1" in words(text)
        assert "secret" not in text
        assert "Traceback" not in text


def test_pages_are_not_kept_by_browsers_and_style_nothing_where_it_stands(decided, ada):
    for path in ("/sign-in/", "/my/", LAB, "/my/nothing/"):
        answer = ada.get(path)
        assert answer["Cache-Control"] == "no-store"
        policy = answer["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        text = answer.content.decode()
        assert " style=" not in text
        assert "<style" not in text
        levels = [int(level) for level in re.findall(r"<h([1-6])", text)]
        assert levels[0] == 1
        assert all(b <= a + 1 for a, b in pairwise(levels)), path


@pytest.mark.parametrize(
    ("value", "text"),
    [("0", "0"), ("3.571428571428571", "3.571"), ("12583", "12,583"), ("1000", "1,000"),
     ("999.96", "1,000"), ("9999.96", "10,000"), ("0.2", "0.2"), ("0.0000001", "less than 0.001"),
     ("-2.5", "-2.5"), ("1e12", "1,000,000,000,000"), ("100", "100"), ("0.05", "0.05")],
)  # fmt: skip
def test_numbers_are_short(value, text):
    assert number_text(Decimal(value)) == text


def test_a_sharing_degree_is_one_sentence():
    assert sharing_text(None, None) == ""
    assert "at least 1.25 times" in sharing_text(1.25, "cpu")
    assert "Sharing cost you something" in sharing_text(0.8, "cpu")
    assert "No use of cpu was recorded" in sharing_text(0, "cpu")
    assert "cost" not in sharing_text(0, "cpu")


def test_amounts_that_solvers_leave_by_rounding_are_0():
    amounts = {"entitled": Decimal(64), "has": Decimal("63.9999999"), "unused": Decimal("1e-7")}
    assert without_dust(amounts) == {**amounts, "unused": 0}
    assert without_dust({"has": Decimal("1e-7")}) == {"has": Decimal("1e-7")}


def test_a_page_names_the_workloads_that_no_single_change_helps(decided, ada, monkeypatch):
    found = workloads_pages.explanation_document

    def explained(*given, **options):
        document = found(*given, **options)
        lacks = {"limited_by": "resource:memory", "budget": None, "detail": "It lacks memory."}
        document["workloads"] += [{"workload": "larger", **lacks}]
        return document

    monkeypatch.setattr(workloads_pages, "explanation_document", explained)
    sentence = "No single change that was tried gives more tasks to larger."
    assert sentence in words(ada.text("/my/pools/lab/why/"))
    monkeypatch.setattr(workloads_pages, "HELPS_SHOWN", 1)
    assert sentence not in words(ada.text("/my/pools/lab/why/"))


def test_a_page_in_the_tenants_name_needs_no_other_page(world):
    """A page of a pool can be opened from a bookmark, after signing in."""
    browser = Browser()
    asked = browser.get(f"{LAB}workloads/?cursor=abc")
    form = browser.get(asked["Location"])
    [wanted] = re.findall('name="next" value="([^"]*)"', form.content.decode())
    assert wanted == f"{LAB}workloads/?cursor=abc"


def test_every_class_of_a_page_has_a_rule():
    """A class without a rule leaves a table as browsers draw it, too wide for a phone."""
    pages = Path(views.__file__).parents[1]
    rules = (pages / "static/pages/pages.css").read_text()
    used = {
        name
        for template in (pages / "templates/pages").glob("*.html")
        for classes in re.findall('class="([^"]*)"', template.read_text())
        for name in re.sub("{[%{].*?[%}]}", " ", classes).split()
    }
    found = {name for name in used if not re.search(rf"\.{re.escape(name)}(?![\w-])", rules)}
    assert found <= {"fields", "helps", "over-time"}  # tests find elements by them


def test_a_week_without_use_is_stated_once(world):
    factories.decision(world.lab)
    text = words(browser_of(world.as_ada).text(LAB))
    assert "Nothing of yours was metered in these days." in text
    assert "used nothing" not in text
