"""The tenants' pages in a real browser: by keyboard, on a phone, in the dark; and axe on every page."""

import io
import os
import re
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect
from pypdf import PdfReader

from tests.backtests import CSV
from tests.live.accessibility import NARROW, VIEWS, WIDE, findings
from tests.live.conftest import opened

POOL = "/my/pools/orchard/"


@pytest.fixture(scope="module")
def page(chromium, service, orchard) -> Iterator[Page]:
    """The pages, signed in by keyboard alone."""
    options = {"viewport": {"width": WIDE, "height": 900}, "base_url": service.url}
    with opened(chromium, reduced_motion="reduce", **options) as page:
        page.goto(POOL)
        expect(page).to_have_title("Sign in · Allocation service")
        expect(page.locator("#key")).to_be_focused()
        page.keyboard.type("alloc_wrong")
        page.keyboard.press("Enter")
        expect(page.locator("[role=alert]")).to_contain_text("This key is not known.")
        expect(page.locator("#key")).to_be_focused()
        page.keyboard.type(orchard)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page).to_have_title("The orchard · Allocation service")
        yield page


def test_axe_finds_nothing_on_the_tenants_pages(page, service):
    month = f"{datetime.now(UTC):%Y-%m}"
    parts = (
        "",
        "workloads/",
        "workloads/submit/",
        "history/",
        "why/",
        "policies/",
        "statements/",
        f"statements/{month}/",
    )
    paths = [f"{POOL}{part}" for part in parts]
    paths += ["/my/", "/my/pools/turns-of-two/", "/my/pools/meadow/", "/my/pools/meadow/why/"]
    paths += [
        "/my/backtests/",
        "/my/backtests/start/",
        "/my/mail/",
        "/my/nothing/",
        "/sign-in/?ended=auth.revoked",
        "/",
    ]
    metered(page)
    compared(page)
    found = []
    for path in paths:
        page.goto(path)
        for details in page.locator("details").all():
            details.evaluate("element => element.open = true")
        found += findings(page)
    assert found == []


def test_the_control_axe_does_find_what_is_wrong(page):
    page.goto("/my/")
    wrong = "<input><img src=x><p class=soft id=faint>faint</p>"
    page.locator("main").evaluate(f"e => e.insertAdjacentHTML('beforeend', '{wrong}')")
    page.locator("#faint").evaluate("e => e.style.color = '#888'")
    named = sorted(re.findall(": ([a-z-]+) ", " ".join(findings(page))))
    light = sum(scheme == "light" for _, scheme in VIEWS)
    assert named == ["color-contrast"] * light + ["image-alt", "label"]


def compared(page: Page) -> None:
    """Open the page of other policies, and wait until a worker has computed it."""
    page.goto(f"{POOL}policies/")
    expect(page.locator("tr.most")).to_contain_text("now", timeout=40_000)


def test_a_worker_computes_what_other_policies_would_give(page):
    compared(page)
    rows = page.locator("tbody tr th").all_inner_texts()
    assert rows[0] == "Fair shares on real servers (DRFH)"
    assert {"Each on its own servers", "Fair shares of one big server (DRF)"} <= set(rows)
    assert "pear" not in page.locator("main").inner_text()


def metered(page: Page) -> None:
    """Open the pool's page, as soon as there is something in its charts."""
    deadline = time.monotonic() + 40
    page.goto(POOL)
    while not page.locator("figure details").count() and time.monotonic() < deadline:
        time.sleep(0.5)
        page.reload()


def test_a_pool_is_read_by_keyboard(page):
    page.set_viewport_size({"width": WIDE, "height": 900})
    metered(page)
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    seen = []
    for _ in range(25):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        seen.append(focused.evaluate("e => (e.ariaLabel || e.innerText || '').slice(0, 40)"))
        assert focused.evaluate("e => getComputedStyle(e).outlineStyle") == "solid", seen
        if seen[-1] == "cpu as a table":
            break
    assert "Why only this?" in seen
    assert "In numbers, and what the words mean" in seen
    page.keyboard.press("Enter")
    expect(page.locator("figure details").first).to_have_attribute("open", "")
    expect(page.locator("figure table").first).to_be_visible()


def test_names_are_text_and_a_chart_tells_its_values(page):
    metered(page)
    expect(page.locator(".work h3").first).to_have_text("<b>bold</b>")
    titles = page.locator("figure svg rect title")
    assert any("cores, mean of the day" in text for text in titles.all_text_contents())


def test_the_lines_of_a_statement_are_not_cut_off_on_a_phone(page):
    page.set_viewport_size({"width": NARROW, "height": 900})
    deadline = time.monotonic() + 60
    while True:
        page.goto(f"{POOL}statements/{datetime.now(UTC):%Y-%m}/")
        if page.locator(".lines").count() or time.monotonic() > deadline:
            break
        time.sleep(1)
    region = page.locator(".wide", has=page.locator(".lines")).first
    assert region.evaluate("e => e.scrollWidth - e.clientWidth") == 0
    for cell in region.locator("td:last-child").all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= NARROW
    assert findings(page) == []
    # A name as long as one may be takes no room of the amounts.
    for name in page.locator("dd, .what").all():
        name.evaluate("e => { e.textContent = 'w'.repeat(63); }")
    assert findings(page) == []
    assert region.evaluate("e => e.scrollWidth - e.clientWidth") == 0


def test_a_statement_is_printed_without_its_links_and_in_light_colours(page):
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.emulate_media(color_scheme="dark")
    page.goto(f"{POOL}statements/{datetime.now(UTC):%Y-%m}/")
    # A table of several sheets has its sum once, below its last line.
    page.locator(".lines tbody").first.evaluate("e => { e.innerHTML = e.innerHTML.repeat(60); }")
    texts = [sheet.extract_text() for sheet in PdfReader(io.BytesIO(page.pdf())).pages]
    assert len(texts) > 1
    assert sum(text.count("Sum of charges") for text in texts) == 1
    assert all("What" in text for text in texts[:2])
    assert not any("Download as PDF" in text for text in texts)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("nav").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.emulate_media(media="screen", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 31)"
    with page.expect_download() as download:
        page.click("text=Download as PDF")
    assert "page 1 of" in PdfReader(download.value.path()).pages[0].extract_text()
    page.click("text=Statements of The orchard")
    expect(page).to_have_title("Statements of The orchard · Allocation service")


@pytest.mark.parametrize("part", ["statements/", ""])
def test_the_amounts_of_months_are_not_cut_off_on_a_phone(page, part):
    page.set_viewport_size({"width": NARROW, "height": 900})
    page.goto(f"{POOL}{part}")
    months = page.locator(".months")
    months.evaluate(
        "table => { for (const e of document.querySelectorAll('details')) e.open = true; }"
    )
    expect(months.locator("tbody tr").first).to_be_visible()
    # A long amount in place of the one of this month, which is open.
    cells = months.locator("td:last-child")
    cells.first.evaluate("cell => { cell.textContent = '12,345,678.90 EUR'; }")
    for cell in [*cells.all(), *months.locator("th, td").all()]:
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= NARROW
    region = page.locator(".wide", has=months)
    assert region.evaluate("e => e.scrollWidth - e.clientWidth") == 0
    assert findings(page) == []


def test_no_number_under_another_policy_is_cut_off_on_a_phone(page):
    """The pool has two workloads of the tenant, each with a number under each policy."""
    page.set_viewport_size({"width": NARROW, "height": 900})
    page.goto(f"{POOL}policies/")
    region = page.get_by_role("region", name="Your tasks under other policies")
    expect(region).to_be_visible(timeout=60_000)
    assert region.evaluate("e => e.scrollWidth - e.clientWidth") == 0
    rows = region.locator("tbody tr")
    assert rows.count() > 3
    for text in ("Your tasks", "Compared with now", "gpu"):
        # A real text, which screen readers read; wide tables have it in their headers alone.
        expect(rows.nth(1).locator(".cell-label", has_text=text)).to_be_visible()
    page.set_viewport_size({"width": WIDE, "height": 900})
    expect(rows.nth(1).locator(".cell-label").first).to_be_hidden()


def test_the_amounts_now_are_not_cut_off_on_a_phone(page):
    page.set_viewport_size({"width": NARROW, "height": 900})
    page.goto(POOL)
    page.get_by_text("In numbers, and what the words mean").click()
    region = page.get_by_role("region", name="Your part now")
    expect(region).to_be_visible()
    for cell in region.locator("td data").all():
        cell.evaluate("e => { e.textContent = '12,345,678 largest servers'; }")
    assert region.evaluate("e => e.scrollWidth - e.clientWidth") == 0


def test_a_picture_is_drawn_for_the_width_that_it_has(page):
    metered(page)
    regions = page.locator(".chart").all()
    assert regions
    for width, drawn in ((WIDE, "760"), (NARROW, "360")):
        page.set_viewport_size({"width": width, "height": 900})
        for region in regions:
            shown = region.locator("svg:visible")
            expect(shown).to_have_count(1)
            expect(shown).to_have_attribute("width", drawn)
            assert region.evaluate("e => e.scrollWidth - e.clientWidth") == 0
            # The hidden picture is not read out either.
            assert region.get_by_role("img").count() == 1
    page.evaluate("document.querySelectorAll('link, style').forEach(each => each.remove())")
    for region in regions:
        shown = region.locator("svg:visible")
        expect(shown).to_have_count(1)
        expect(shown).to_have_attribute("width", "760")
    page.reload()


def test_a_picture_shows_its_values_under_the_pointer_and_by_the_arrow_keys(page):
    page.set_viewport_size({"width": NARROW, "height": 900})
    page.goto(f"{POOL}history/?days=1")
    region, readout = page.locator(".over-time"), page.locator(".readout")
    expect(readout).to_have_text("")
    region.focus()
    page.keyboard.press("End")
    expect(readout).to_contain_text(
        re.compile(r"^Since \d+ \w+ \d{4}, [\d:]+ UTC: .*<b>bold</b> [\d.]+ tasks")
    )
    latest = readout.inner_text()
    assert findings(page) == []
    page.set_viewport_size({"width": WIDE, "height": 900})
    region.hover()
    expect(page.locator(".pointer")).to_have_count(1)
    expect(readout).to_contain_text("Since ")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    expect(readout).to_contain_text("Since ")
    page.keyboard.press("End")
    expect(readout).to_have_text(latest)


def test_a_page_follows_the_pool_without_being_loaded_again(page, operator):
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.goto(POOL)
    page.evaluate("window.kept = true")
    page.click("text=Policy, generation and proof")
    path = "/api/v1/pools/orchard/workloads/"
    draft = {"tenant": "apple", "name": "appears", "demand": {"cpu": 1}, "tasks": 1}
    operator.post(path, [draft])
    row = page.locator(".work h3", has_text="appears")
    expect(row).to_have_count(1, timeout=40_000)
    expect(page.locator("#live")).to_contain_text("Updated at")
    assert page.evaluate("window.kept") is True
    fold = page.locator("details", has_text="Policy, generation and proof").first
    expect(fold).to_have_attribute("open", "")
    assert findings(page) == []
    [found] = [each for each in operator.get(path).body["results"] if each["name"] == "appears"]
    one = f"{path}{found['id']}/"
    matching = {"If-Match": operator.get(one).headers["ETag"]}
    assert operator.request("DELETE", one, headers=matching).status == 204
    expect(row).to_have_count(0, timeout=40_000)


def test_a_page_that_is_hidden_asks_for_nothing(page):
    page.goto(POOL)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    shown = "Object.defineProperty(document, 'hidden', { value: %s, configurable: true })"
    page.evaluate(f"{shown % 'true'}; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_timeout(12_000)  # longer than the page waits between two questions
    assert asked == []
    with page.expect_request("**/state/"):
        page.evaluate(f"{shown % 'false'}; document.dispatchEvent(new Event('visibilitychange'))")


def test_pages_work_without_scripts(page, chromium, service):
    state = page.context.storage_state()
    options = {"base_url": service.url, "java_script_enabled": False, "storage_state": state}
    with opened(chromium, **options) as scriptless:
        scriptless.goto(f"{POOL}history/?days=30")
        expect(scriptless.locator(".over-time svg:visible")).to_have_count(1)
        # Whether a step is there depends on the decisions that the tests before this one caused.
        expect(scriptless.locator("h2", has_text="Steps and their causes")).to_be_visible()
        scriptless.click("text=24 hours")
        expect(scriptless.locator(".actions [aria-current=page]")).to_have_text("24 hours")


def test_what_would_help_is_found_when_it_is_asked_for(page):
    page.goto(POOL)
    page.click("text=What would help >> nth=0")
    expect(page.locator("h1")).to_have_text("Why only this?")
    expect(page.locator(".helps li").first).to_contain_text("<b>bold</b> would run")


def test_a_backtest_is_started_and_cancelled_by_keyboard(page):
    """What is wrong is read with its field; nobody serves the queue here, so that it waits."""
    page.set_viewport_size({"width": NARROW, "height": 900})
    page.goto("/my/backtests/")
    page.locator("text=Start a backtest").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_title("Start a backtest · Allocation service")
    page.locator("#id_servers").focus()
    page.keyboard.type("many")
    page.locator("main button").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main [role=alert]")).to_contain_text("Nothing was started.")
    servers = page.locator("#id_servers")
    expect(servers).to_have_attribute("aria-invalid", "true")
    expect(servers).to_have_accessible_description(re.compile("Line 1: expected how many servers"))
    assert findings(page) == []
    page.locator("#id_servers").fill("2 cpu=4 memory=16")
    trace = {"name": "t.csv", "mimeType": "text/csv", "buffer": CSV.encode()}
    page.locator("#id_file").set_input_files(files=[trace])
    page.locator("main button").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".lead")).to_contain_text("It waits for a worker: 0 %.")
    assert findings(page) == []
    page.locator("text=Cancel").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".lead")).to_contain_text("It was cancelled.")


def test_pages_that_wait_take_in_the_result_and_have_a_link_without_scripts(
    page, chromium, service, operator
):
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.goto(f"{POOL}workloads/submit/")
    page.fill("#id_name", "awaited")
    page.fill("#id_demand_0", "1")
    page.fill("#id_tasks", "1")
    os.killpg(service.processes["worker"].pid, signal.SIGSTOP)
    try:
        page.click("main button")
        expect(page.locator("main")).to_contain_text("is being computed")
        page.evaluate("window.kept = true")
        assert findings(page) == []
        state = page.context.storage_state()
        options = {"base_url": service.url, "java_script_enabled": False, "storage_state": state}
        with opened(chromium, **options) as scriptless:
            scriptless.goto(page.url)
            os.killpg(service.processes["worker"].pid, signal.SIGCONT)
            expect(page.locator(".work li", has_text="awaited")).to_be_visible(timeout=40_000)
            scriptless.click("text=Look again")
            expect(scriptless.locator(".work li", has_text="awaited")).to_be_visible()
    finally:
        os.killpg(service.processes["worker"].pid, signal.SIGCONT)
    assert page.evaluate("window.kept") is True
    expect(page.locator("#live")).to_contain_text("Updated at")
    expect(page.get_by_text("Look again")).to_have_count(0)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(5_000)  # longer than a page that waits lets pass between two looks
    assert asked == []


def test_a_workload_is_submitted_and_withdrawn_by_keyboard(page):
    """What it would get is shown before each, computed by a worker."""
    page.set_viewport_size({"width": NARROW, "height": 900})
    page.goto(POOL)
    page.locator("text=Submit a workload").focus()
    page.keyboard.press("Enter")
    page.locator("#id_name").fill("more")
    page.locator("main button").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#id_tasks")).to_have_attribute("aria-invalid", "true")
    assert findings(page) == []
    page.locator("#id_demand_0").fill("1")
    page.locator("#id_unlimited").check()
    page.locator("main button").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Submit more?")
    expect(page.locator(".work li", has_text="more")).to_contain_text(
        "Is new, would run", timeout=30_000
    )
    assert findings(page) == []
    page.locator("main button").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main [role=alert]")).to_contain_text("Tick the box")
    page.locator("#unlimited").focus()
    page.keyboard.press("Space")
    page.locator("main button").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_title("The orchard · Allocation service")
    expect(page.locator(".work h3", has_text="more")).to_have_count(1)
    page.locator("button", has_text="Withdraw more").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".work li", has_text="more")).to_contain_text(
        "would be withdrawn", timeout=30_000
    )
    page.locator("main button").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_title("The orchard · Allocation service")
    expect(page.locator(".work h3", has_text="more")).to_have_count(0)


def test_the_proof_is_a_file(page):
    page.goto(POOL)
    with page.expect_download() as download:
        page.click("text=Policy, generation and proof")
        page.click("text=Download its proof")
    assert download.value.suggested_filename.startswith("proof-")


def test_signing_out_leads_back_to_the_form(page):
    page.goto("/my/")
    page.click("text=Sign out")
    expect(page.locator("[role=status]")).to_have_text("You are signed out.")
    page.goto(POOL)
    expect(page).to_have_title("Sign in · Allocation service")
