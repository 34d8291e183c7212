"""The admin's pages in a real browser: axe on each of them, and lists on a laptop and on a phone."""

import re

import pytest
from playwright.sync_api import expect

from tests.backtests import CSV
from tests.examples import numbers
from tests.live import full_lists
from tests.live.accessibility import NARROW, WIDE, findings
from tests.live.conftest import decision_of, opened

# Of each page of the admin. They take half of the time.
NAVIGATION = ("#header", "#nav-sidebar")
WIDER = """() => Math.max(document.documentElement.scrollWidth - window.innerWidth,
  ...[...document.querySelectorAll(".results")].map((each) => each.scrollWidth - each.clientWidth))"""


def test_axe_finds_nothing_on_the_admins_main_pages(admin_page, orchard, chromium, service):
    paths = ["/admin/", "/admin/pools/pool/", "/admin/pools/pool/add/", "/admin/pools/server/add/",
             "/admin/pools/membership/", "/admin/tenants/apikey/add/", "/admin/workloads/workload/",
             "/admin/allocation/run/", "/admin/ledger/entry/", "/admin/billing/priceplan/add/",
             "/admin/core/auditentry/", "/admin/search/?q=orchard", "/admin/billing/closing/",
             "/admin/billing/statement/", "/admin/pools/server/import/",
             "/admin/tenants/tenant/import/"]  # fmt: skip
    admin_page.goto(paths[0])
    found = findings(admin_page)
    for path in paths[1:]:
        admin_page.goto(path)
        found += findings(admin_page, outside=NAVIGATION)
    admin_page.goto("/admin/pools/pool/?q=orchard")
    pool = admin_page.locator("#result_list tbody th a").first.get_attribute("href")
    admin_page.goto(str(pool))
    with admin_page.expect_navigation():
        admin_page.locator(".tabs").get_by_text("Now", exact=True).click()
    tabs = admin_page.locator(".tabs a").evaluate_all("all => all.map(one => one.href)")
    assert len(tabs) == 9
    for path in tabs:
        admin_page.goto(path)
        found += findings(admin_page, outside=NAVIGATION)
    admin_page.goto(next(path for path in tabs if path.endswith("/members/")))
    expect(admin_page.locator(".chart svg:visible").first).to_be_visible()
    with admin_page.expect_navigation():
        admin_page.click("#shares tbody th a >> nth=0")
    found += findings(admin_page, outside=NAVIGATION)
    admin_page.goto(re.sub("change/.*", "history/", str(pool)))
    found += findings(admin_page, outside=NAVIGATION)
    admin_page.goto("/admin/allocation/run/?status__exact=succeeded")
    with admin_page.expect_navigation():
        admin_page.click("#result_list tbody th a >> nth=0")
    found += findings(admin_page, outside=NAVIGATION)
    admin_page.set_viewport_size({"width": WIDE, "height": 900})
    admin_page.click("button:has-text('Verify')")
    expect(admin_page.locator("#checks")).to_be_visible()
    found += findings(admin_page, outside=NAVIGATION)
    admin_page.goto("/admin/pools/server/import/")
    admin_page.select_option("#id_pool", "meadow")
    rows = b"name,capacity.cpu\ngood,1\nbad,x\n"
    file = {"name": "servers.csv", "mimeType": "text/csv", "buffer": rows}
    admin_page.set_input_files("#id_file", files=[file])
    admin_page.click("input[value='Show the rows']")
    expect(admin_page.locator("#rows")).to_be_visible()
    found += findings(admin_page, outside=NAVIGATION)
    with opened(chromium, base_url=service.url, reduced_motion="reduce") as anonymous:
        anonymous.goto("/admin/login/")
        found += findings(anonymous)
    assert found == []


def test_axe_finds_nothing_on_previews_of_the_admin(admin_page, orchard):
    """Yield the addresses of previews, of the open month and of placements."""
    admin_page.set_viewport_size({"width": WIDE, "height": 900})
    admin_page.goto("/admin/pools/server/?q=orchard")
    admin_page.check("input.action-select >> nth=0")
    admin_page.select_option("select[name=action]", "drain")
    admin_page.click("button[name=index]")
    expect(admin_page.locator(".breadcrumbs")).to_contain_text("Servers › Drain 1 server")
    found = findings(admin_page, outside=NAVIGATION)
    admin_page.set_viewport_size({"width": WIDE, "height": 900})
    admin_page.goto("/admin/billing/closing/")
    admin_page.click("text=The orchard")
    expect(admin_page.locator("h1")).to_contain_text("The orchard: ")
    found += findings(admin_page, outside=NAVIGATION)
    admin_page.set_viewport_size({"width": WIDE, "height": 900})
    admin_page.goto("/admin/billing/priceplan/")
    admin_page.click("text=Preview >> nth=0")
    expect(admin_page.locator("#content")).to_contain_text("The usage of ")
    found += findings(admin_page, outside=NAVIGATION)
    admin_page.goto("/admin/allocation/run/?status__exact=succeeded")
    admin_page.set_viewport_size({"width": WIDE, "height": 900})
    admin_page.click("#result_list tbody th a >> nth=0")
    admin_page.click("text=Where tasks run")
    expect(admin_page.locator("h1")).to_have_text("Where tasks run")
    found += findings(admin_page, outside=NAVIGATION)
    assert found == []


LISTS = {  # with rows, of names that are long
    "/admin/allocation/run/", "/admin/ledger/entry/", "/admin/tenants/apikey/",
    "/admin/webhooks/delivery/", "/admin/webhooks/webhook/", "/admin/backtests/backtest/",
    "/admin/axes/accesslog/", "/admin/billing/priceplan/", "/admin/core/auditentry/",
    "/admin/workloads/workload/", "/admin/allocation/allocation/", "/admin/pools/server/",
    *full_lists.LISTS,
}  # fmt: skip
LONG = "the-institute-of-theoretical-chemistry-and-spectroscopy"


@pytest.fixture(scope="module")
def long_names(service, operator):
    """Rows in the lists of the admin whose names are as long as they come."""
    operator.post("/api/v1/tenants/", {"slug": LONG, "name": LONG.replace("-", " ")})
    resources = [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}]
    pool = {"slug": f"{LONG}-2", "name": LONG, "resources": resources, "policy": {"name": "drfh"}}
    pool["metering"] = "reported"
    assert operator.post("/api/v1/pools/", pool).status == 201
    path = f"/api/v1/pools/{LONG}-2/"
    url = f"https://example.com/{LONG}/hooks/{'of-the-computing-centre' * 3}"
    hook = {"url": url, "events": ["decision.published"]}
    assert operator.post("/api/v1/webhooks/", hook).status == 201
    server = {"name": f"{LONG}-server", "capacity": {"cpu": 4096, "memory": 12345.678}}
    operator.post(f"{path}servers/", {**server, "contributed_by": LONG, "labels": {"zone": LONG}})
    workload = {"tenant": LONG, "name": f"{LONG}-training", "demand": {"cpu": 1, "memory": 0.5}}
    operator.post(f"{path}workloads/", workload)
    decision_of(operator, f"{LONG}-2", operator.get(path).body["generation"])
    body = {"trace": {"format": "csv", "content": CSV}, "policies": ["static", "drfh"]}
    body |= {"servers": [{"capacity": {"cpu": 4, "memory": 16}, "count": 2}], "name": LONG}
    assert operator.post("/api/v1/backtests/", body).status in (201, 202)
    service.manage("apikey", "create", "--scope", "tenant", "--tenant", LONG, "--name", LONG)
    used = {
        "source": LONG,
        "id": "1",
        "tenant": LONG,
        "resources": {"memory": "9876543210.123456789"},
    }
    period = {"start": "2026-01-05T10:00:00Z", "end": "2026-01-06T11:30:00Z"}
    assert operator.post(f"{path}usage/", [used | period]).status < 300
    full_lists.fill(service, operator, LONG, f"{LONG}-2")


def test_lists_of_the_admin_fit_a_laptop_and_a_phone(admin_page, orchard, long_names):
    admin_page.goto("/admin/")
    links = admin_page.locator("#content-main th a").evaluate_all("all => all.map(a => a.pathname)")
    paths = sorted({path for path in links if re.fullmatch("/admin/[a-z]+/[a-z]+/", path)})
    assert set(paths) >= LISTS
    found = []
    for path in [*paths, "/admin/pools/server/import/", "/admin/tenants/tenant/import/"]:
        admin_page.goto(path)
        if path in LISTS and not admin_page.locator("#result_list tbody tr").count():
            found.append(f"{path} is empty")
        for width in (1280, NARROW):
            admin_page.set_viewport_size({"width": width, "height": 900})
            beyond = admin_page.evaluate(WIDER)
            found += [f"{path} {width}: {beyond} px too wide"] if beyond > 0 else []
    assert found == []


def test_axe_finds_nothing_on_lists_and_forms_of_the_admin(admin_page, orchard, long_names):
    """One object of each list, and the form that adds one.

    Without `--thorough` it asks about every third list.
    """
    admin_page.goto("/admin/")
    links = admin_page.locator("#content-main th a").evaluate_all("all => all.map(a => a.pathname)")
    paths = sorted({path for path in links if re.fullmatch("/admin/[a-z]+/[a-z]+/", path)})
    found = []
    for path in [paths[number] for number in numbers(len(paths))]:
        admin_page.goto(path)
        found += findings(admin_page, outside=NAVIGATION)
        one = admin_page.locator("#result_list tbody th a")
        if one.count():
            admin_page.goto(str(one.first.get_attribute("href")))
            found += findings(admin_page, outside=NAVIGATION)
        answer = admin_page.goto(f"{path}add/")
        if answer is not None and answer.ok:
            found += findings(admin_page, outside=NAVIGATION)
    assert found == []


def test_a_list_on_a_phone_names_its_cells_in_words(admin_page, long_names):
    admin_page.set_viewport_size({"width": NARROW, "height": 900})
    admin_page.goto(f"/admin/pools/server/?q={LONG}")
    row = admin_page.locator("#result_list tbody tr").first
    expect(row.locator(".cell-label", has_text="Contributed by")).to_be_visible()
    admin_page.set_viewport_size({"width": 1280, "height": 900})
    expect(row.locator(".cell-label").first).to_be_hidden()
