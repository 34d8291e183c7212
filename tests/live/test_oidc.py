"""Signing in with a provider's button, in a real browser; and the pages with it, by axe."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from launcher.client import Client
from launcher.processes import wait_until_ready
from tests.live.accessibility import findings
from tests.live.conftest import opened
from tests.live.service import LiveService
from tests.pages.provider import Provider, providing


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture(scope="module")
def web(service, provider, tmp_path_factory) -> Iterator[LiveService]:
    """Another web process of the service, which knows the provider."""
    variables = {
        "ALLOCATOR_OIDC_ISSUER": provider.url,
        "ALLOCATOR_OIDC_CLIENT_ID": "allocator",
        "ALLOCATOR_OIDC_CLIENT_SECRET": "secret words",
        "ALLOCATOR_OIDC_NAME": "Example ID",
        "ALLOCATOR_OIDC_OPERATOR_GROUP": "operators",
    }
    logs = tmp_path_factory.mktemp("oidc")
    live = LiveService({**service.environment, **variables}, logs)
    try:
        live.start("web")
        wait_until_ready(
            lambda: Client(live.url).request("GET", "/healthz").status == 200,
            process=live.processes["web"],
            step="start the web process",
            log=logs / "web.log",
            seconds=60,
        )
        yield live
    finally:
        live.stop()


@pytest.fixture
def page(chromium, web) -> Iterator[Page]:
    options = {"viewport": {"width": 1400, "height": 900}, "base_url": web.url}
    with opened(chromium, reduced_motion="reduce", **options) as page:
        yield page


def at_the_provider(page: Page, subject: str) -> None:
    """What a person does there."""
    expect(page.locator("input[name=sub]")).to_be_visible()
    page.fill("input[name=sub]", subject)
    page.click("button[type=submit] >> nth=0")


def test_an_operator_and_then_a_tenants_person_sign_in_by_the_button(page, web, provider, operator):
    operator.post("/api/v1/tenants/", {"slug": "geology", "name": "Geology"})
    provider.register("grace", name="Grace Hopper", groups=["operators"])
    provider.register("ada", name="Ada Lovelace", groups=["/research/geology"])
    page.goto("/admin/tenants/groupgrant/add/")
    found = findings(page)
    page.set_viewport_size({"width": 1400, "height": 900})
    page.click("text=Sign in with Example ID")
    at_the_provider(page, "grace")
    expect(page.locator("#user-tools")).to_contain_text("Grace Hopper")
    page.fill("#id_group", "/research/geology")
    page.click(".select2-selection")
    page.fill(".select2-search__field", "geology")
    page.click(".select2-results__option >> text=geology")
    page.click("input[name=_save]")
    expect(page.locator(".success")).to_contain_text("/research/geology → geology")
    page.click("#logout-form button")
    expect(page.locator("text=Sign out of Example ID too")).to_be_visible()

    page.goto("/my/")
    found += findings(page)
    page.set_viewport_size({"width": 1400, "height": 900})
    page.keyboard.press("Tab")
    page.click("text=Sign in with Example ID")
    at_the_provider(page, "ada")
    expect(page).to_have_title("My pools · Allocation service")
    expect(page.locator("header")).to_contain_text("Geology · Ada Lovelace")
    page.goto("/admin/")
    expect(page.locator("#login-form")).to_be_visible()
    page.goto("/my/")
    page.click("text=Sign out")
    expect(page.locator("[role=status]")).to_have_text("You are signed out here.")
    page.click("text=Sign out of Example ID too")
    page.click("button[type=submit] >> nth=0")
    expect(page).to_have_title("Sign in · Allocation service")

    provider.register("eve", name="Eve", groups=["others"])
    page.click("text=Sign in with Example ID")
    at_the_provider(page, "eve")
    expect(page.locator("h1")).to_have_text("You have no role here")
    assert found == []
