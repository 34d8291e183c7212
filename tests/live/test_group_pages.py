"""The tree of groups in a real browser: on tenants' pages and in the admin, and axe on each."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.live.accessibility import NARROW, WIDE, findings
from tests.live.conftest import decision_of, opened

GROUPS = [
    {"slug": "science", "name": "Science", "weight": 3},
    {"slug": "physics", "name": "Physics and a long name of an institute", "parent": "science",
     "weight": 2},
    {"slug": "biology", "name": "Biology", "parent": "science", "tier": 1},
    {"slug": "engineering", "name": "Engineering"},
    {"slug": "empty", "name": "Empty", "parent": "engineering"},
]  # fmt: skip
MEMBERS = {
    "ash": "physics",
    "oak": "physics",
    "pine": "biology",
    "fir": "engineering",
    "yew": None,
}


@pytest.fixture(scope="module")
def key(service, operator):
    """Key of `ash`, a member of a transparent pool and of a private one with the same tree."""
    resources = [
        {"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"},
        {"name": "gpu", "unit": "GPU"},
    ]  # fmt: skip
    operator.post("/api/v1/tenants/", [{"slug": each, "name": each.title()} for each in MEMBERS])
    for slug, transparent in (("institute", True), ("academy", False)):
        path = f"/api/v1/pools/{slug}/"
        pool = {
            "slug": slug,
            "name": f"The {slug}",
            "transparent": transparent,
            "weights": "explicit",
        }
        pool |= {"resources": resources, "policy": {"name": "drfh"}}
        assert operator.post("/api/v1/pools/", pool).status == 201
        operator.post(f"{path}groups/", GROUPS)
        capacity = {"cpu": 1280, "memory": 5120, "gpu": 64}
        operator.post(f"{path}servers/", {"name": "big", "capacity": capacity})
        for tenant, group in MEMBERS.items():
            terms = {"group": group, "best_effort": tenant == "yew"}
            assert operator.request("PUT", f"{path}members/{tenant}/", terms).status in (200, 201)
        demand = {"cpu": 4, "memory": 16, "gpu": 1}
        operator.post(f"{path}workloads/", [
            {"tenant": each, "name": "w", "demand": demand, "tasks": None if each < "k" else 12500}
            for each in MEMBERS
        ])  # fmt: skip
        decision_of(operator, slug, operator.get(path).body["generation"])
    return service.manage(
        "apikey", "create", "--scope", "tenant", "--tenant", "ash", "--name", "ash-groups"
    )


@pytest.fixture(scope="module")
def page(chromium, service, key) -> Iterator[Page]:
    """The pages of `ash`."""
    options = {"viewport": {"width": WIDE, "height": 900}, "base_url": service.url}
    with opened(chromium, reduced_motion="reduce", **options) as page:
        page.goto("/my/")
        expect(page.locator("#key")).to_be_focused()
        page.keyboard.type(key)
        page.keyboard.press("Enter")
        expect(page).to_have_title("My pools · Allocation service")
        yield page


@pytest.fixture(scope="module")
def head_of_science(chromium, service, key) -> Iterator[Page]:
    """The pages of the group `science` in the private pool, for the key of its manager."""
    its_key = service.manage(
        "apikey", "create", "--scope", "group", "--pool", "academy", "--group", "science",
        "--name", "science-head",
    )  # fmt: skip
    options = {"viewport": {"width": NARROW, "height": 900}, "base_url": service.url}
    with opened(chromium, reduced_motion="reduce", **options) as page:
        page.goto("/my/")
        expect(page.locator("#key")).to_be_focused()
        page.keyboard.type(its_key)
        page.keyboard.press("Enter")
        expect(page).to_have_title("Science in The academy · Allocation service")
        yield page


def test_axe_finds_nothing_on_pages_of_a_group(head_of_science):
    found = []
    for width in (WIDE, NARROW):
        head_of_science.set_viewport_size({"width": width, "height": 900})
        for path in (
            "/my/group/", "/my/groups/physics/", "/my/members/ash/", "/my/groups/physics/limits/",
            "/my/members/ash/limits/", "/my/groups/science/limits/",
        ):  # fmt: skip
            head_of_science.goto(path)
            found += findings(head_of_science)
    assert found == []


def test_a_manager_changes_a_weight_by_keyboard(head_of_science, operator):
    head_of_science.goto("/my/group/")
    weight = head_of_science.locator("tr", has_text="physics").get_by_label("Weight")
    expect(weight).to_have_value("2")
    weight.fill("2.5")
    head_of_science.keyboard.press("Enter")
    expect(head_of_science).to_have_url(re.compile("/my/groups/science/$"))
    changed = operator.get("/api/v1/pools/academy/groups/physics/").body
    assert changed["weight"] == 2.5
    expect(head_of_science.locator("tr", has_text="physics").get_by_label("Weight")).to_have_value(
        "2.5"
    )
    head_of_science.click("text=Physics and a long name")
    head_of_science.click("text=Ash")
    expect(head_of_science.locator("h1")).to_contain_text("Ash")


def test_a_manager_sets_a_limit_for_a_deadline_by_keyboard(head_of_science, operator):
    head_of_science.goto("/my/group/")
    head_of_science.get_by_role("link", name="Change limits of physics").click()
    head_of_science.get_by_label("gpu, at most").fill("8")
    head_of_science.get_by_label("Until").fill("2027-01-31T18:00")
    head_of_science.keyboard.press("Enter")
    row = head_of_science.locator("tr", has_text="8 GPUs")
    expect(row).to_contain_text("until 31 January 2027, 18:00 UTC")
    group = operator.get("/api/v1/pools/academy/groups/physics/").body
    assert group["limit"] == [
        {"where": {}, "amount": {"gpu": 8}, "from": None, "to": "2027-01-31T18:00:00Z"}
    ]
    decision_of(operator, "academy", operator.get("/api/v1/pools/academy/").body["generation"])
    head_of_science.reload()
    expect(row).to_contain_text("8 GPUs allocated now, 100 %")
    assert findings(head_of_science) == []
    row.get_by_role("button", name="Remove limit 1").press("Enter")
    expect(head_of_science.locator("main")).to_contain_text("It has none.")
    assert operator.get("/api/v1/pools/academy/groups/physics/").body["limit"] == []


def test_axe_finds_nothing_on_pages_with_trees(page, admin_page):
    found = []
    for pool in ("institute", "academy"):
        for part in ("", "groups/physics/", "groups/science/"):
            page.goto(f"/my/pools/{pool}/{part}")
            found += findings(page)
    admin_page.goto("/admin/pools/pool/?q=institute")
    pool = admin_page.locator("#result_list tbody th a").first.get_attribute("href")
    overview = re.sub("change/.*", "overview/members/", str(pool))
    for query in ("", "?group=science"):
        admin_page.goto(f"{overview}{query}")
        expect(admin_page.locator(".tree")).to_be_visible()
        found += findings(admin_page)
    assert found == []


def test_a_tree_folds_by_keyboard_and_leads_to_a_group_and_back(page):
    page.set_viewport_size({"width": NARROW, "height": 900})
    page.goto("/my/pools/institute/")
    page.locator("summary", has_text=re.compile("^Groups$")).focus()
    page.keyboard.press("Enter")
    science = page.locator(".tree summary", has_text="science")
    inner = page.locator(".tree details details summary", has_text="physics")
    expect(inner).to_be_visible()
    science.focus()
    page.keyboard.press("Enter")
    expect(inner).not_to_be_visible()
    page.keyboard.press("Enter")
    page.locator("text=Open physics").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Physics and a long name of an institute")
    expect(page.locator(".tree .tag")).to_have_text("you")
    page.click("text=Back to The institute")
    expect(page).to_have_title("The institute · Allocation service")


def test_the_admins_tree_leads_to_the_form_of_a_group(admin_page):
    admin_page.set_viewport_size({"width": WIDE, "height": 900})
    admin_page.goto("/admin/pools/pool/?q=institute")
    pool = admin_page.locator("#result_list tbody th a").first.get_attribute("href")
    admin_page.goto(re.sub("change/.*", "overview/members/", str(pool)))
    admin_page.click("text=Open physics")
    expect(admin_page.locator("#groups")).to_have_text("Groups below physics")
    expect(admin_page.locator(".tree-leaf")).to_have_count(2)
    admin_page.click("#content-main a:text-is('change')")
    expect(admin_page.locator("#id_parent")).to_have_value("science")
