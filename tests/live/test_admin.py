"""Operators run a pool from the admin, in a real browser; the service decides what they save."""

import re

import psycopg
import pytest
from playwright.sync_api import Page, expect

from launcher.client import Client
from tests.live.conftest import opened


@pytest.fixture
def page(admin_page: Page) -> Page:
    """A browser that has logged in as a superuser."""
    admin_page.set_viewport_size({"width": 1300, "height": 900})
    admin_page.emulate_media(color_scheme="light")
    return admin_page


def filled(page: Page, path: str, **fields: str) -> None:
    page.goto(path)
    for name, value in fields.items():
        page.fill(f"#id_{name}", value)


def saved(page: Page) -> None:
    page.click("input[name=_save]")
    expect(page.locator(".messagelist .success")).to_contain_text("was added successfully")


def chosen(page: Page, field: str, text: str) -> None:
    """Choose in an autocomplete field as a person does: open, type, take the first answer."""
    page.click(f".field-{field} .select2-selection")
    page.fill(".select2-search__field", text)
    page.click(f".select2-results__option:has-text('{text}')")


def test_an_operator_opens_a_pool_contributes_servers_and_sees_a_decision(page, service, decided):
    filled(page, "/admin/tenants/tenant/add/", slug="chemistry", name="Chemistry")
    saved(page)
    filled(page, "/admin/pools/pool/add/", slug="bench", name="Bench", decision_interval_0="soon",
           currency="XXY", window_anchor_0="2026-01-05", window_anchor_1="00:00:00")  # fmt: skip
    page.select_option("#id_policy_name", "drfh")
    page.click("input[name=_save]")
    expect(page.locator(".field-decision_interval .errorlist")).to_contain_text("a whole number")
    expect(page.locator(".field-currency .errorlist")).to_contain_text("ISO 4217")
    expect(page.locator(".errorlist")).to_have_count(2)
    page.fill("#id_decision_interval_0", "1")
    page.fill("#id_currency", "EUR")
    saved(page)

    filled(page, "/admin/pools/server/add/", name="node", capacity="cpu=4 memory=16Gi gpu=1")
    chosen(page, "pool", "bench")
    chosen(page, "contributed_by", "chemistry")
    page.click("input[name=_save]")
    expect(page.locator(".errorlist")).to_contain_text("The pool has no resource")
    page.fill("#id_capacity", "cpu=4 memory=16Gi")
    page.fill("#id_count", "3")
    page.click("input[name=_save]")
    expect(page.locator(".messagelist .success")).to_have_text(
        "3 servers added to bench: node-0001 to node-0003."
    )

    filled(page, "/admin/workloads/workload/add/", name="titration", demand="cpu=1 memory=1Gi")
    chosen(page, "pool", "bench")
    chosen(page, "tenant", "chemistry")
    saved(page)

    assert decided("bench", 3)["run"]["summary"]["servers"] == 3
    page.goto("/admin/allocation/allocation/?q=titration")
    expect(page.locator("#result_list .field-tasks").first).to_have_text("12", use_inner_text=True)


def test_a_list_is_sorted_and_selected_on_a_phone(page, operator):
    pool = {"slug": "racks", "name": "Racks", "resources": [{"name": "cpu", "unit": "core"}]}
    policy = {"policy": {"name": "drfh"}, "weights": "explicit"}
    assert operator.post("/api/v1/pools/", {**pool, **policy}).status == 201
    rack = {"name": "rack", "count": 2, "capacity": {"cpu": 4}}
    assert operator.post("/api/v1/pools/racks/servers/", rack).status == 201
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto("/admin/pools/server/?q=rack")
    rows = page.locator("#result_list tbody tr")
    assert rows.count() > 1
    for head in page.locator("#result_list thead :is(.sortable a, input):visible").all():
        box = head.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    # Columns that do not sort are named for screen readers only.
    capacity = page.locator("#result_list thead .column-quantities")
    assert capacity.inner_text().strip().lower() == "capacity"
    assert capacity.evaluate("e => e.offsetWidth") == 1
    page.locator("#action-toggle").check()
    expect(page.locator("input.action-select:checked")).to_have_count(rows.count())
    page.locator("#result_list thead").get_by_role("link", name="Name", exact=True).click()
    expect(page).to_have_url(re.compile(r"[?&]o="))
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_the_form_of_a_pool_shows_what_the_chosen_policy_uses(page):
    page.goto("/admin/pools/pool/add/")
    shown = page.locator(".form-row:visible [name^=option_]")
    names = "all => all.map(field => field.name)"
    assert shown.evaluate_all(names) == ["option_drfh_share"]
    expect(page.locator(".field-window_kind")).to_be_hidden()
    page.select_option("#id_policy_mode", "indivisible")
    assert shown.evaluate_all(names) == [
        "option_drfh_share", "option_drfh_placement", "option_drfh_seed",
    ]  # fmt: skip
    page.select_option("#id_policy_mode", "divisible")
    page.select_option("#id_policy_name", "h-mrf")
    expect(page.locator(".field-policy_mode")).to_be_hidden()
    assert page.locator("#id_policy_mode").input_value() == ""  # h-mrf has no other
    page.select_option("#id_policy_name", "drfh")
    assert page.locator("#id_policy_mode").input_value() == "divisible"  # as it was
    page.select_option("#id_policy_name", "h-mrf")
    expect(page.locator(".field-window_length")).to_be_visible()
    expect(page.locator(".field-window_half_life")).to_be_hidden()
    page.select_option("#id_window_kind", "decay")
    expect(page.locator(".field-window_length")).to_be_hidden()
    expect(page.locator(".field-window_half_life")).to_be_visible()
    headings = page.locator("fieldset:visible h2:has-text('Options of')")
    expect(headings).to_have_text([re.compile(r"\(H-MRF\).*\(LT-DRF\)")])


def test_without_scripts_the_form_of_a_pool_shows_every_field(chromium, page, service):
    state = page.context.storage_state()
    with opened(
        chromium, base_url=service.url, storage_state=state, java_script_enabled=False
    ) as plain:
        plain.goto("/admin/pools/pool/add/")
        for name in ("option_drfh_seed", "option_tda_pack", "window_half_life_0", "policy_mode"):
            expect(plain.locator(f"[name={name}]")).to_be_visible()


def test_actions_drain_servers_and_the_next_decision_follows(page, operator, decided):
    page.goto("/admin/pools/server/?q=node-0001")
    page.check("input.action-select")
    page.select_option("select[name=action]", "drain")
    page.click("button[name=index]")
    expect(page.locator("#content")).to_contain_text("1 tenant would run fewer tasks")
    expect(page.locator("#content table")).to_contain_text("12 → 8")
    page.fill("#id_reason", "a broken fan")
    page.click("input[type=submit]")
    expect(page.locator(".messagelist .success")).to_contain_text("1 server drained.")
    decision = decided("bench", 4)
    assert decision["run"]["summary"]["utilization"]["cpu"] == pytest.approx(1)
    rows = operator.get("/api/v1/pools/bench/allocations/").body["results"]
    assert [row["tasks"] for row in rows] == pytest.approx([8])


def test_decisions_cannot_be_changed_or_deleted_by_anybody(page):
    page.goto("/admin/allocation/run/")
    page.click("#result_list tbody th a >> nth=0")
    expect(page.locator("input[name=_save]")).to_have_count(0)
    expect(page.locator(".deletelink")).to_have_count(0)
    expect(page.locator("#content")).to_contain_text("In force")
    page.click("button:has-text('Verify')")
    expect(page.locator(".messagelist .success")).to_contain_text("Every check holds")


def test_a_file_of_servers_is_looked_at_and_then_imported(page, decided):
    page.goto("/admin/pools/server/")
    page.click("text=Import from a file")
    page.select_option("#id_pool", "bench")
    rows = b"name,count,contributed_by,capacity.cpu\nrack,20,chemistry,1\nbad,1,nobody,1\n"
    file = {"name": "servers.csv", "mimeType": "text/csv", "buffer": rows}
    page.set_input_files("#id_file", files=[file])
    page.check("#id_skip_refused")
    page.click("input[value='Show the rows']")
    expect(page.locator("#rows tbody tr").first).to_contain_text("tenant.unknown")
    page.fill("#id_reason", "the new rack")
    page.click("input[value='Import: 20 servers to add']")
    expect(page.locator(".messagelist .success")).to_have_text("20 servers added, 1 refused.")
    assert decided("bench", 5)["run"]["summary"]["servers"] == 22


def test_a_new_key_is_shown_once_and_works(page, service):
    page.goto("/admin/tenants/apikey/add/")
    page.fill("#id_name", "from-the-admin")
    page.select_option("#id_scope", "billing")
    page.click("input[name=_save]")
    text = page.locator(".messagelist .warning").inner_text().rpartition(": ")[2].strip()
    assert Client(service.url, text).request("GET", "/api/v1/pools/").status == 200
    page.goto("/admin/tenants/apikey/")
    assert text not in page.content()


def test_what_the_admin_changed_is_in_the_database_as_the_services_write_it(service):
    with psycopg.connect(service.environment["DATABASE_URL"]) as connection:
        rows = connection.execute(
            "SELECT pool.generation, job.wanted FROM pool JOIN pool_recompute_job job"
            " ON job.pool_id = pool.id WHERE pool.slug = 'bench'"
        ).fetchall()
    assert rows == [(5, 5)]


def test_the_documentation_shows_every_route_under_the_strict_policy(page):
    answer = page.goto("/api/v1/docs/")
    assert answer is not None
    assert "script-src" not in answer.headers["content-security-policy"]  # scripts: 'self' only
    # Swagger UI reads 1.4 MB before it shows anything: for 3 s, and far longer on a busy machine.
    page.locator(".opblock-tag").first.wait_for(timeout=60_000)
    operations = page.request.get("/api/v1/schema/?format=json").json()["paths"]
    for group in page.locator(".opblock-tag").all():
        group.click()
    shown = page.locator(".opblock-summary-path")
    expect(shown).to_have_count(sum(len(methods) for methods in operations.values()))
    assert set(shown.evaluate_all("all => all.map(one => one.dataset.path)")) == set(operations)
