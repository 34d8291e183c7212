"""The screenshots of the documentation, taken from a running service.

`ALLOCATOR_RECORD_PICTURES=1 ./dev test --thorough -n 0 tests/live/test_pictures.py` writes them to
docs/pictures. Without the variable the same pages are opened and photographed, so that each picture can
still be taken.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from launcher.client import Client
from tests.examples import long
from tests.live.conftest import decision_of, launched, opened, superuser_of
from tests.live.service import LiveService

pytestmark = long

DOCS = Path(__file__).parents[2] / "docs" / "pictures"
WIDTH = 1280
TENANTS = ("astronomy", "biology", "chemistry")
RESOURCES = [
    {"name": "cpu", "unit": "core"},
    {"name": "memory", "unit": "GiB"},
    {"name": "gpu", "unit": "GPU"},
]


# A service of its own: other tests of the shared one make pools and tenants of these names, too.
@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[LiveService]:
    with launched("pictures", worker_id, tmp_path_factory.mktemp("service")) as live:
        yield live


@pytest.fixture(scope="module")
def operator(service: LiveService) -> Client:
    return service.client("operator", "pictures")


@pytest.fixture(scope="module")
def superuser(service: LiveService) -> tuple[str, str]:
    return superuser_of(service)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that pictures are written to."""
    if os.environ.get("ALLOCATOR_RECORD_PICTURES"):
        return DOCS
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def lab(operator: Client) -> Client:
    """Two pools of three tenants: one decides at once, the other remembers."""
    for slug in TENANTS:
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug.title()})
    pools: dict[str, dict[str, Any]] = {
        "lab": {"policy": {"name": "drfh", "mode": "indivisible"}, "transparent": True},
        "weekly": {
            "policy": {"name": "h-mrf"}, "decision_interval": "PT2S",
            "window": {"kind": "sliding", "length": "P7D"},
        },
    }  # fmt: skip
    for slug, settings in pools.items():
        fields = {"slug": slug, "name": f"The {slug} pool", "resources": RESOURCES, **settings}
        assert operator.post("/api/v1/pools/", fields).status == 201
        path = f"/api/v1/pools/{slug}/"
        shapes = {"astronomy": (64, 256, 0), "biology": (96, 384, 4), "chemistry": (32, 512, 8)}
        for tenant, amounts in shapes.items():
            capacity = dict(zip(("cpu", "memory", "gpu"), amounts, strict=True))
            rack = {"name": f"{tenant}-rack", "count": 2, "capacity": capacity}
            operator.post(f"{path}servers/", {**rack, "contributed_by": tenant})
        demands = {
            "stacking": ("astronomy", {"cpu": 2, "memory": 4}, None),
            "ocean-model": ("astronomy", {"cpu": 1, "memory": 12}, 20),
            "assembly": ("biology", {"cpu": 2, "memory": 8}, None),
            "folding": ("biology", {"cpu": 4, "memory": 16, "gpu": 1}, 6),
            "docking": ("chemistry", {"cpu": 1, "memory": 4}, None),
            "training": ("chemistry", {"cpu": 4, "memory": 32, "gpu": 2}, None),
        }
        for name, (tenant, demand, tasks) in demands.items():
            workload = {"tenant": tenant, "name": name, "demand": demand, "tasks": tasks}
            assert operator.post(f"{path}workloads/", workload).status == 201
        decision_of(operator, slug, operator.get(path).body["generation"])
    more = {
        "tenant": "astronomy",
        "name": "calibration",
        "demand": {"cpu": 1, "memory": 2},
        "tasks": 5,
    }
    operator.post("/api/v1/pools/lab/workloads/", more)
    decision_of(operator, "lab", operator.get("/api/v1/pools/lab/").body["generation"])
    return operator


@pytest.fixture
def admin(admin_page: Page, lab: Client) -> Page:
    admin_page.set_viewport_size({"width": WIDTH, "height": 900})
    admin_page.emulate_media(color_scheme="light", reduced_motion="reduce")
    return admin_page


@pytest.fixture
def tenant(chromium: Any, service: Any, lab: Client) -> Iterator[Page]:
    """The pages of a tenant, signed in."""
    arguments = ("create", "--scope", "tenant", "--tenant", "biology", "--name")
    key = service.manage("apikey", *arguments, f"pictures-{time.monotonic_ns()}")
    size: Any = {"width": 1040, "height": 1180}
    with opened(chromium, viewport=size, base_url=service.url, reduced_motion="reduce") as page:
        page.goto("/sign-in/")
        page.get_by_label("API key").fill(key.split()[-1])
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_be_visible()
        yield page


def tab(page: Page, pool: str, name: str) -> None:
    """Open a tab of a pool's page."""
    page.goto(f"/admin/pools/pool/?q={pool}")
    page.locator("#result_list tbody th a").first.click()
    page.locator(".tabs").get_by_text(name, exact=True).click()


def chosen(page: Page, query: str, action: str) -> None:
    """Choose an action for the first server that a search finds."""
    page.goto(f"/admin/pools/server/?q={query}")
    page.locator("input.action-select").first.check()
    page.select_option("select[name=action]", action)
    page.click("button[name=index]")


def of_members(page: Page) -> Locator:
    tab(page, "lab", "Members and groups")
    expect(page.locator(".chart svg").first).to_be_visible()
    return page.locator("#content")


def of_runs(page: Page) -> Locator:
    page.goto("/admin/allocation/run/")
    page.locator("#changelist-filter").get_by_role("link", name="lab", exact=True).click()
    expect(page.locator("#result_list tbody tr").first).to_be_visible()
    return page.locator("#content")


def of_window(page: Page) -> Locator:
    """Wait until the window of the pool that remembers holds something."""
    deadline = time.monotonic() + 60
    heading = page.locator("h2", has_text="What the window remembers")
    table = heading.locator("xpath=following-sibling::*[.//table][1]")
    while True:
        tab(page, "weekly", "Members and groups")
        if table.locator("tbody tr").count() or time.monotonic() > deadline:
            break
        time.sleep(1)
    expect(table).to_contain_text("biology")
    return page.locator("#window")


def of_weight(page: Page) -> Locator:
    page.goto("/admin/pools/membership/?q=biology")
    page.locator("#result_list tbody tr", has_text="lab").locator("th a").click()
    page.fill("#id_weight", "0.5")
    page.click("input[name=_save]")
    expect(page.locator("#content")).to_contain_text("would run fewer tasks")
    return page.locator("#content")


def of_policy(page: Page) -> Locator:
    tab(page, "lab", "Settings")
    page.select_option("#id_policy_name", "asset")
    page.click("input[name=_save]")
    expect(page.locator("#content")).to_contain_text("would run fewer tasks")
    return page.locator("#content")


def of_drain(page: Page) -> Locator:
    chosen(page, "chemistry-rack", "drain")
    expect(page.locator("#content")).to_contain_text("would run fewer tasks")
    return page.locator("#content")


def of_form(page: Page) -> Locator:
    page.goto("/admin/pools/pool/add/")
    page.select_option("#id_policy_name", "h-mrf")
    expect(page.locator(".field-window_length")).to_be_visible()
    return page.locator("#content")


def of_import(page: Page) -> Locator:
    page.goto("/admin/pools/server/import/")
    expect(page.locator("#columns")).to_be_visible()
    return page.locator("#content")


def of_filters(page: Page) -> Locator:
    page.goto("/admin/pools/server/?state__exact=active&q=rack")
    if not page.locator(".saved-filters li").count():
        page.fill("#id_filter_name", "Racks in service")
        page.locator(".saved-filters").get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".saved-filters a[aria-current]")).to_have_text("Racks in service")
    page.reload()
    return page.locator("#content")


def of_tenant(page: Page) -> Locator:
    page.goto("/my/pools/lab/")
    expect(page.locator("main")).to_contain_text("You may run")
    return page.locator("body")


ADMIN: dict[str, Callable[[Page], Locator]] = {
    "overview": of_members,
    "runs": of_runs,
    "window": of_window,
    "impact-weight": of_weight,
    "impact-policy": of_policy,
    "impact-drain": of_drain,
    "pool-form": of_form,
    "import": of_import,
    "saved-filters": of_filters,
}


@pytest.mark.parametrize("name", ADMIN)
def test_a_picture_of_the_admin_is_taken(admin, taken, name):
    take(ADMIN[name](admin), taken / f"{name}.png")


def test_a_picture_of_a_tenants_page_is_taken(tenant, taken):
    take(of_tenant(tenant), taken / "tenant-page.png", height=1180)


def test_every_screenshot_of_the_documentation_has_a_page(taken):
    assert {path.stem for path in DOCS.glob("*.png")} == {*ADMIN, "tenant-page"}


def take(part: Locator, path: Path, height: int = 1_040) -> None:
    """Write a picture of a part of a page, cut below `height` pixels."""
    page, box = part.page, part.bounding_box()
    assert box is not None
    clip: Any = {**box, "height": min(box["height"], height)}
    page.screenshot(path=path, clip=clip, full_page=True, animations="disabled")
    assert re.match(rb"\x89PNG", path.read_bytes())
