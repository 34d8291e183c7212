"""Every page, by method and by who asks, and another tenant's beside one that does not exist."""

import itertools
import re
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
import time_machine

from allocator_service.allocation.models import Simulation
from allocator_service.allocation.what_if.simulations import simulation_run
from allocator_service.backtests.models import Backtest
from allocator_service.billing.budgets import BudgetDraft, BudgetSettings, budget_create
from allocator_service.billing.plans.services import (
    PlanDraft,
    RateDraft,
    plan_create,
    plan_publish,
)
from allocator_service.core.clock import utc_now
from allocator_service.pools.models import Group
from allocator_service.pools.services import pool_retire
from allocator_service.tenants.models import Access, ApiKey, Scope
from allocator_service.tenants.services import api_key_digest, api_key_revoke
from tests import factories
from tests.api.v1.test_scopes import PAGES, routes
from tests.backtests import asked
from tests.pages.browser import TOKEN, Browser, browser_of
from tests.pages.people import person_of, person_of_group

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("people_sign_in")]

# Per page, what its holder may send. Without a session each of them asks to sign in.
MATRIX = {
    "/my/": {"GET"},
    "/my/tenant/": {"GET", "POST"},
    "/my/mail/": {"GET", "POST"},
    "/my/mail/<uuid:subscription>/end/": {"POST"},
    "/my/backtests/": {"GET"},
    "/my/backtests/start/": {"GET", "POST"},
    "/my/backtests/<str:backtest>/": {"GET"},
    "/my/backtests/<str:backtest>/cancel/": {"POST"},
    "/my/group/": {"GET"},
    "/my/groups/<str:group>/": {"GET"},
    "/my/groups/<str:group>/statements/<str:month>/": {"GET"},
    "/my/groups/<str:group>/limits/": {"GET", "POST"},
    "/my/groups/<str:group>/budgets/": {"GET", "POST"},
    "/my/groups/<str:group>/budgets/<str:budget>/": {"GET", "POST"},
    "/my/members/<str:tenant>/": {"GET"},
    "/my/members/<str:tenant>/limits/": {"GET", "POST"},
    "/my/members/<str:tenant>/budgets/": {"GET", "POST"},
    "/my/members/<str:tenant>/budgets/<str:budget>/": {"GET", "POST"},
    "/my/terms/": {"POST"},
    "/my/pools/<str:pool>/": {"GET"},
    "/my/pools/<str:pool>/workloads/": {"GET"},
    "/my/pools/<str:pool>/workloads/submit/": {"GET", "POST"},
    "/my/pools/<str:pool>/workloads/<str:workload>/change/": {"GET", "POST"},
    "/my/pools/<str:pool>/workloads/<str:workload>/withdraw/": {"POST"},
    "/my/pools/<str:pool>/changes/<str:change>/": {"GET", "POST"},
    "/my/pools/<str:pool>/groups/<str:group>/": {"GET"},
    "/my/pools/<str:pool>/history/": {"GET"},
    "/my/pools/<str:pool>/state/": {"GET"},
    "/my/pools/<str:pool>/why/": {"GET"},
    "/my/pools/<str:pool>/policies/": {"GET"},
    "/my/pools/<str:pool>/statements/": {"GET"},
    "/my/pools/<str:pool>/statements/<str:month>/": {"GET"},
    "/my/pools/<str:pool>/decisions/<str:run>/proof/": {"GET"},
}
# Of a group of a pool, by a key or as a person: all other pages are those of tenants.
OF_GROUPS = {
    route for route in MATRIX if route.startswith(("/my/group", "/my/members", "/my/terms"))
}
OF_BOTH = {"/my/", "/my/tenant/"}
OPEN = {
    "/sign-in/": {"GET", "POST"},
    "/sign-in/oidc/": {"GET"},
    "/sign-in/oidc/callback/": {"GET"},
    "/sign-out/": {"POST"},
    "/sign-out/oidc/": {"GET"},
    "/mail/confirm/<str:token>/": {"GET", "POST"},
    "/mail/end/<str:token>/": {"GET", "POST"},
}
NOTHING = "/^(?:my|mail|sign-in|sign-out)/"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
UNKNOWN = "01a1fa35-2b84-7418-8537-e4019453fdf6"


def test_every_page_is_in_the_matrix():
    found = {path for path, _ in routes() if path.startswith(PAGES)}
    assert found == MATRIX.keys() | OPEN.keys() | {NOTHING}


@pytest.fixture
def decided(world):
    world.lab.transparent = world.other.transparent = True
    world.lab.save()
    world.other.save()
    for pool, tenant in ((world.lab, world.ada), (world.other, world.eve)):
        factories.group(pool, "science")
        factories.group(pool, "physics", "science")
        factories.member(pool, tenant, "physics")
    factories.group(world.lab, "bobs")
    factories.member(world.lab, world.bob, "bobs")
    world.run, world.other_run = factories.decision(world.lab), factories.decision(world.other)
    world.backtest, world.other_backtest = (
        client.post("/api/v1/backtests/", asked()).json()["id"]
        for client in (world.as_ada, world.as_eve)
    )
    physics = Group.objects.get(pool=world.lab, slug="physics")
    draft = BudgetDraft(physics, "cpu", BudgetSettings(Decimal(100), [100]))
    world.group_budget = budget_create(pool=world.lab, draft=draft, now=utc_now()).pk
    world.change, world.bobs_change, world.other_change = (
        change_of(client, pool, workload)
        for client, pool, workload in (
            (world.as_ada, "lab", world.ada_workload),
            (world.as_bob, "lab", world.bob_workload),
            (world.as_eve, "other", world.eve_workload),
        )
    )
    return world


def change_of(client, pool, workload):
    """A change of a workload that its tenant asked about, tried."""
    changes = {"workloads": {"change": [{"id": str(workload.pk), "tasks": 3}]}}
    asked_for = client.post(f"/api/v1/pools/{pool}/simulations/", changes).json()["id"]
    simulation_run(simulation_id=UUID(asked_for), clock=utc_now)
    return asked_for


by_key_and_as_person = pytest.mark.parametrize(
    "signed_in_by",
    [lambda client, _: browser_of(client), lambda _, tenant: person_of(tenant)],
    ids=["by key", "as person"],
)


def path_of(route, **names):
    return re.sub("<(?:str|uuid):([a-z]+)>", lambda part: str(names[part[1]]), route)


def own(world):
    return {
        "pool": "lab",
        "run": world.run.pk,
        "month": "2026-11",
        "backtest": world.backtest,
        "group": "physics",
        "tenant": "ada",
        "workload": world.ada_workload.pk,
        "change": world.change,
        "budget": world.group_budget,
        "subscription": UNKNOWN,
    }


def signed_out(world):
    return Browser()


def revoked(world):
    client = factories.client("tenant", world.ada)
    browser = browser_of(client)
    key = ApiKey.objects.get(digest=api_key_digest(client.key))
    api_key_revoke(identifier=key.name, now=datetime.now(UTC))
    return browser


def expired(world):
    client = factories.client("tenant", world.ada)
    browser = browser_of(client)
    key = ApiKey.objects.filter(digest=api_key_digest(client.key))
    key.update(expires_at=datetime.now(UTC))
    return browser


def test_who_may_open_what(decided):
    """Nobody without a usable key gets anything but the way in; methods beyond GET are refused."""
    for make in (signed_out, revoked, expired):
        for route, method in itertools.product(MATRIX, METHODS):
            browser = make(decided)
            answer = browser.client.generic(method, path_of(route, **own(decided)))
            expected = {302} if method in ("GET", "HEAD") else {302, 403, 405}
            assert answer.status_code in expected, (make, route, method)
            assert b"analysis" not in answer.content
    for ada in (browser_of(decided.as_ada), person_of(decided.ada)):
        for route, method in itertools.product(MATRIX, METHODS):
            answer = ada.client.generic(method, path_of(route, **own(decided)))
            there = {404} if "month" in route else {200}  # no prices were published
            there = {404} if route in OF_GROUPS else there
            there = there if "GET" in MATRIX[route] or route in OF_GROUPS else {405}
            # 403: it has no token
            expected = there if method in ("GET", "HEAD") else {403, 404, 405}
            assert answer.status_code in expected, (route, method)
            assert (method != "HEAD") or answer.content == b""


def test_a_person_of_a_tenant_sees_what_its_key_sees(decided):
    key, person = browser_of(decided.as_ada), person_of(decided.ada)
    at_the_top = '<span class="soft">Ada{}</span>'
    with time_machine.travel(datetime.now(UTC), tick=False):
        for route in MATRIX.keys() - {"/my/tenant/"}:
            path = path_of(route, **own(decided))
            mine, keys = person.get(path), key.get(path)
            texts = [TOKEN.sub("", each.content.decode()) for each in (mine, keys)]
            assert mine.status_code == keys.status_code
            assert (
                texts[0].replace(at_the_top.format(" · Person"), at_the_top.format("")) == texts[1]
            )


def visitors_of_a_group(group):
    """By keys and as people, each once to manage the group and once to read it."""
    for access in Access.values:
        yield browser_of(factories.client(Scope.GROUP, group=group, access=access))
        yield person_of_group(group, access)


def test_visitors_of_a_group_have_its_pages_and_no_others(decided):
    science = Group.objects.get(pool=decided.lab, slug="science")
    for visitor in visitors_of_a_group(science):
        for route, method in itertools.product(MATRIX, METHODS):
            answer = visitor.client.generic(method, path_of(route, **own(decided)))
            there = {200} if route in OF_GROUPS | OF_BOTH else {404}
            there = {404} if "month" in route else there  # no prices were published
            there = {302} if route == "/my/" else there
            # It is the budget of the group.
            there = {404} if route.startswith("/my/members") and "budget>" in route else there
            there = {405} if route == "/my/terms/" else there
            expected = there if method in ("GET", "HEAD") else {403, 404, 405}
            assert answer.status_code in expected, (route, method, answer.status_code)


def test_a_person_of_a_group_sees_what_its_key_sees(decided):
    science = Group.objects.get(pool=decided.lab, slug="science")
    for access in Access.values:
        key = browser_of(factories.client(Scope.GROUP, group=science, access=access))
        person = person_of_group(science, access)
        with time_machine.travel(datetime.now(UTC), tick=False):
            for route in OF_GROUPS - {"/my/terms/"}:
                path = path_of(route, **own(decided))
                mine, keys = person.get(path), key.get(path)
                texts = [TOKEN.sub("", each.content.decode()) for each in (mine, keys)]
                assert mine.status_code == keys.status_code
                assert texts[0].replace("Science · Person", "Science") == texts[1], path


def test_keys_of_neither_tenants_nor_groups_have_no_pages(decided):
    for scope in sorted(set(Scope) - {Scope.TENANT, Scope.GROUP}):
        browser = Browser()
        key = factories.client(scope, pool="lab" if scope == Scope.AGENT else "").key
        assert browser.sign_in(key).status_code == 403
        for route in MATRIX:
            assert browser.get(path_of(route, **own(decided))).status_code == 302


def same(browser, path):
    answer = browser.get(path)
    headers = {n: v for n, v in answer.headers.items() if n not in ("X-Request-Id",)}
    return answer.status_code, headers, answer.content


@by_key_and_as_person
def test_foreign_unknown_and_malformed_names_answer_the_same(decided, signed_in_by):
    ada = signed_in_by(decided.as_ada, decided.ada)
    for route, methods in MATRIX.items():
        if "<" not in route or "GET" not in methods or route in OF_GROUPS:
            continue
        foreign = path_of(
            route, pool="other", run=decided.other_run.pk, month="2026-11",
            backtest=decided.other_backtest, group="physics",
            workload=decided.eve_workload.pk, change=decided.other_change,
        )  # fmt: skip
        unknown = path_of(route, pool="nowhere", run=UNKNOWN, month="2026-11", backtest=UNKNOWN,
                          group="none", workload=UNKNOWN, change=UNKNOWN)  # fmt: skip
        odd = path_of(route, pool="%00%C3%A4", run="%00", month="%00", backtest="%00", group="%00",
                      workload="%00", change="%00")  # fmt: skip
        assert same(ada, foreign)[0] == 404, route
        assert same(ada, foreign) == same(ada, unknown) == same(ada, odd), route
    pairs = [
        (f"/my/pools/lab/why/?workload={decided.bob_workload.pk}",
         f"/my/pools/lab/why/?workload={UNKNOWN}"),
        (f"/my/pools/lab/decisions/{decided.other_run.pk}/proof/",
         f"/my/pools/lab/decisions/{UNKNOWN}/proof/"),
        (f"/my/pools/lab/workloads/{decided.bob_workload.pk}/change/",
         f"/my/pools/lab/workloads/{UNKNOWN}/change/"),
        (f"/my/pools/lab/changes/{decided.bobs_change}/", f"/my/pools/lab/changes/{UNKNOWN}/"),
        ("/my/pools/lab/groups/bobs/", "/my/pools/lab/groups/none/"),
        ("/my/pools/lab/groups/bobs/", "/my/pools/lab/groups/%00/"),
    ]  # fmt: skip
    for foreign, unknown in pairs:
        assert same(ada, foreign)[0] == 404
        assert same(ada, foreign) == same(ada, unknown)
    told = [
        ada.post(f"/my/backtests/{each}/cancel/", "/my/")
        for each in (decided.other_backtest, UNKNOWN, "%00")
    ]
    assert {(each.status_code, each.content) for each in told} == {(404, told[0].content)}
    assert Backtest.objects.get(pk=decided.other_backtest).status == "queued"


@by_key_and_as_person
def test_workloads_of_others_are_neither_tried_nor_changed(decided, signed_in_by):
    ada = signed_in_by(decided.as_ada, decided.ada)
    form = {"tasks": "1", "demand_0": "1", "confirmed": "yes"}
    before = list(Simulation.objects.order_by("pk").values())
    foreign = [decided.bob_workload.pk, decided.eve_workload.pk]
    pages = [
        [f"workloads/{each}/{verb}/" for each in (*foreign, UNKNOWN, "%00")]
        for verb in ("change", "withdraw")
    ]
    pages.append(
        [f"changes/{each}/" for each in (decided.bobs_change, decided.other_change, UNKNOWN)]
    )
    for same_answers in pages:
        told = [ada.post(f"/my/pools/lab/{path}", "/my/", **form) for path in same_answers]
        assert {(each.status_code, each.content) for each in told} == {(404, told[0].content)}
    assert list(Simulation.objects.order_by("pk").values()) == before
    for workload in (decided.bob_workload, decided.eve_workload):
        version = workload.version
        workload.refresh_from_db()
        assert (workload.state, workload.version) == ("active", version)


@pytest.mark.parametrize(
    "path",
    [
        "/my/x/",
        "/mail/x/",
        "/my/pools/",
        "/my/pools/lab/x/y/",
        "/sign-in/x/",
        "/my/%00",
        "/my/" + "a" * 3000,
    ],
)
def test_any_other_path_is_a_page_that_says_so(path, world):
    for browser in (Browser(), browser_of(world.as_ada)):
        answer = browser.get(path)
        assert answer.status_code == 404
        assert b"<h1>There is nothing here</h1>" in answer.content


@by_key_and_as_person
@pytest.mark.parametrize("transparent", [False, True])
def test_no_text_of_another_tenant_is_on_any_page(transparent, signed_in_by):
    ada, bob = factories.tenant("ada"), factories.tenant("bobtext-slug")
    lab = factories.pool("lab", transparent=transparent)
    factories.server(lab, "ada-server", 4, 4, ada, labels={"zone": "here"})
    factories.server(lab, "bobtext-server", 4, 4, bob, labels={"bobtext-label": "bobtext-value"})
    factories.server(lab, "bobtext-many", 8, 8, bob, count=3)
    work = factories.workload(lab, "ada-work", 1, 1, ada)
    factories.workload(
        lab, "bobtext-work", 1, 2, bob, server_selector={"bobtext-label": ["bobtext-value"]}
    )
    factories.group(lab, "shared")
    factories.group(lab, "bobtext-group", "shared")
    factories.member(lab, ada, "shared")
    factories.member(lab, bob, "bobtext-group")
    factories.pool("bobtext-pool")
    named = asked(name="bobtext", policies=["drf"])
    assert factories.client("tenant", bob).post("/api/v1/backtests/", named).status_code == 202
    run = factories.decision(lab)
    factories.enforcement_report(run, problems=["bobtext-slug has no account"])
    browser = signed_in_by(factories.client("tenant", ada), ada)
    paths = ["/my/", "/my/tenant/", "/my/pools/lab/", "/my/pools/lab/groups/shared/"]
    paths += [
        f"/my/pools/lab/{part}/"
        for part in ("workloads", "history", "why", "policies", "statements")
    ]
    changed = change_of(factories.client("tenant", ada), "lab", work)
    paths += [f"/my/pools/lab/{part}/" for part in (f"changes/{changed}", "workloads/submit",
                                                    f"workloads/{work.pk}/change")]  # fmt: skip
    paths += [f"/my/pools/lab/why/?workload={work.pk}", "/my/backtests/", "/my/backtests/start/"]
    for path in paths:
        assert "bobtext" not in browser.text(path), path
    proof = browser.get(f"/my/pools/lab/decisions/{run.pk}/proof/")
    assert proof.status_code == (200 if transparent else 404)
    assert b"bobtext" not in proof.content
    assert ("Download its proof" in browser.text("/my/pools/lab/")) == transparent


# Pages that a tenant reads, by their routes, in the test of two worlds.
UNCHANGED = [
    "/my/", "/my/tenant/", "/my/mail/",
    "/my/pools/<str:pool>/", "/my/pools/<str:pool>/workloads/", "/my/pools/<str:pool>/why/",
    "/my/pools/<str:pool>/history/", "/my/pools/<str:pool>/state/",
    "/my/pools/<str:pool>/statements/", "/my/pools/<str:pool>/statements/<str:month>/",
    "/my/pools/<str:pool>/groups/<str:group>/", "/my/pools/<str:pool>/workloads/submit/",
    "/my/pools/<str:pool>/workloads/<str:workload>/change/",
    "/my/pools/<str:pool>/changes/<str:change>/",
    "/my/pools/<str:pool>/decisions/<str:run>/proof/",
    "/my/backtests/", "/my/backtests/start/", "/my/backtests/<str:backtest>/",
]  # fmt: skip
# Pages of groups have tests of their own, and a comparison is computed by a worker in the background.
ELSEWHERE = ("/my/group/", "/my/groups/", "/my/members/", "/my/pools/<str:pool>/policies/")


def test_every_page_that_a_tenant_reads_is_in_the_test_of_two_worlds():
    read = {route for route, methods in MATRIX.items() if "GET" in methods and route[:4] == "/my/"}
    assert {route for route in read if not route.startswith(ELSEWHERE)} == set(UNCHANGED)


@by_key_and_as_person
def test_what_happens_elsewhere_changes_no_byte_for_a_tenant(decided, signed_in_by):
    named = {
        "<str:pool>": "lab", "<str:group>": "physics", "<str:workload>": decided.ada_workload.pk,
        "<str:change>": decided.change, "<str:run>": decided.run.pk,
        "<str:backtest>": decided.backtest, "<str:month>": f"{datetime.now(UTC):%Y-%m}",
    }  # fmt: skip
    begin = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    prices = PlanDraft("p", begin, rates=[RateDraft("cpu", pooled=Decimal("0.04"))])
    plan_publish(
        plan=plan_create(pool=decided.lab, draft=prices, now=utc_now()), version=None, now=utc_now()
    )
    pages = UNCHANGED
    for part, name in named.items():
        pages = [page.replace(part, str(name)) for page in pages]
    ada = signed_in_by(decided.as_ada, decided.ada)
    factories.enforcement_report(decided.run)
    moment = datetime.now(UTC)
    with time_machine.travel(moment, tick=False):
        before = [ada.text(path) for path in pages]
    factories.enforcement_report(decided.other_run)
    factories.server(decided.other, "more", 9, 9, decided.eve)
    factories.workload(decided.other, "more", 1, 1, decided.eve)
    factories.decision(decided.other)
    factories.pool("third")
    decided.as_eve.post("/api/v1/backtests/", asked())
    decided.as_eve.post(f"/api/v1/backtests/{decided.other_backtest}/cancel/")
    browser_of(decided.as_eve).text("/my/pools/other/")
    with time_machine.travel(moment, tick=False):
        assert [ada.text(path) for path in pages] == before


def test_in_a_shared_pool_only_shares_and_the_decision_may_change(world):
    """What bob does changes what ada has, never her lists, and no text of his appears."""
    factories.group(world.lab, "science")
    for tenant in (world.ada, world.bob):
        factories.member(world.lab, tenant, "science")
    factories.decision(world.lab)
    ada = browser_of(world.as_ada)
    factories.workload(world.lab, "bobtext", 1, 1, world.bob)
    factories.server(world.lab, "bobtext-server", 1, 1, world.bob)
    factories.decision(world.lab)
    parts = ("", "workloads/", "why/", "groups/science/")
    for path in ("/my/", *(f"/my/pools/lab/{part}" for part in parts)):
        text = ada.text(path)
        assert "bobtext" not in text
        assert not re.search(r"\bbob\b", text, re.IGNORECASE), path


def test_a_closed_pool_is_gone_but_its_statements(world):
    ada = browser_of(world.as_ada)
    world.lab.servers.update(state="retired")
    pool_retire(pool=world.lab, version=None, now=datetime.now(UTC))
    assert ada.get("/my/pools/lab/").status_code == 404
    assert ada.get("/my/pools/lab/why/").status_code == 404
    assert 'href="/my/pools/lab/statements/"' in ada.text("/my/")
    assert "Lab (closed)" in ada.text("/my/pools/lab/statements/")
    assert browser_of(world.as_eve).get("/my/pools/lab/statements/").status_code == 404
