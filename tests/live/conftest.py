"""The whole service as its users meet it: web, relay, beat and worker processes, over HTTP.

It has a database and a Redis database of its own, so it runs beside tests that roll back theirs.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from launcher.client import Client
from tests import migrated
from tests.live.service import LiveService
from tests.receivers import CERTIFICATE
from tests.services import AT_ONCE, redis_database

CHROMIUM = Path("/usr/bin/chromium")
expect.set_options(timeout=10_000)  # as long as a page's actions may take, see `opened`
# Services that may run side by side on one of the tests' workers, each with a database of Redis there.
# The last one's is that of the worker's own tests, which run before or after it.
NAMES = ("live", "clocked", "slurm", "kept", "pictures")


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[LiveService]:
    """The service, up and ready; it may send to loopback, and trusts the receivers' certificate.

    It stops after the last test of this folder: idle, it takes a seventh of a core.
    """
    receivers = {
        "WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8,::1/128",
        "SSL_CERT_FILE": str(CERTIFICATE),
    }
    with launched("live", worker_id, tmp_path_factory.mktemp("service"), **receivers) as live:
        yield live


@contextmanager
def launched(name: str, worker_id: str, logs: Path, **variables: str) -> Iterator[LiveService]:
    """A service of that name, up and ready, with `variables` in its environment."""
    live = LiveService(servers_of(name, worker_id) | variables, logs)
    try:
        live.launch()
        yield live
    finally:
        live.stop()


def servers_of(name: str, worker_id: str) -> dict[str, str]:
    """The environment of a service of that name: a migrated database and one of Redis, without rows."""
    database = f"{name}_{worker_id}"
    migrated.fresh(database)
    number = NAMES.index(name) * AT_ONCE + 1
    if worker_id != "master":
        number += int(worker_id.removeprefix("gw"))
    return {
        **migrated.addresses(database),
        "REDIS_URL": redis_database(number),
        "DJANGO_SETTINGS_MODULE": "allocator_service.settings.local",
        "THROTTLE_RATE": "100000",
        "THROTTLE_BURST": "100000",
    }


@pytest.fixture(scope="session")
def worker_id(request: pytest.FixtureRequest) -> str:
    """`gw0`, ... under pytest-xdist, `master` without it."""
    return str(getattr(request.config, "workerinput", {}).get("workerid", "master"))


@pytest.fixture(scope="package")
def operator(service: LiveService) -> Client:
    return service.client("operator", "tests")


@pytest.fixture(scope="package")
def superuser(service: LiveService) -> tuple[str, str]:
    """Name and password of somebody who may do everything in the admin."""
    return superuser_of(service)


def superuser_of(service: LiveService) -> tuple[str, str]:
    """Make a superuser of a service; return the name and the password."""
    name, password = "operator", "correct horse battery staple"
    subprocess.run(
        [sys.executable, "manage.py", "createsuperuser", "--noinput", "--username", name,
         "--email", "operator@example.org"],
        env={**service.environment, "DJANGO_SUPERUSER_PASSWORD": password,
             "ALLOCATOR_PROCESS": "manage"},
        check=True,
    )  # fmt: skip
    return name, password


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for a file's tests; its loop must end before others use Django in this process."""
    if not CHROMIUM.exists():
        pytest.skip(f"needs Chromium at {CHROMIUM}: apt-get install chromium libatomic1")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking",
                  "--disable-component-update", "--disable-sync"],
        )  # fmt: skip
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, **options: Any) -> Iterator[Page]:
    """A page in a context of its own, which our own content policies must stop nothing on."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(10_000)
    refused: list[str] = []
    page.on(
        "console",
        lambda said: refused.append(said.text) if "Content Security" in said.text else None,
    )
    yield page
    context.close()
    assert refused == []


@pytest.fixture(scope="module")
def admin_page(
    chromium: Browser, service: LiveService, superuser: tuple[str, str]
) -> Iterator[Page]:
    """The admin, opened by a superuser."""
    size: Any = {"width": 1300, "height": 900}
    with opened(chromium, viewport=size, base_url=service.url, reduced_motion="reduce") as page:
        page.goto("/admin/")
        page.fill("#id_username", superuser[0])
        page.fill("#id_password", superuser[1])
        page.click("input[type=submit]")
        expect(page.locator("#site-name")).to_have_text("Allocation service")
        yield page


@pytest.fixture
def decided(operator: Client) -> Callable[[str, int], dict[str, Any]]:
    """Wait until the decision in force in a pool includes a generation; return the decision."""
    return partial(decision_of, operator)


def decision_of(
    operator: Client, pool: str, generation: int, seconds: float = 30
) -> dict[str, Any]:
    """The pool's decision, as soon as one includes the generation."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = operator.request("GET", f"/api/v1/pools/{pool}/decision/")
        if answer.status == 200 and answer.body["generation"] >= generation:
            found: dict[str, Any] = answer.body
            return found
        time.sleep(0.02)
    raise AssertionError(f"no decision for generation {generation} of {pool}: {answer}")


@pytest.fixture(scope="package")
def orchard(service: LiveService, operator: Client) -> str:
    """The key of a tenant of three pools: a transparent one with prices, one with turns, one empty."""
    resources = [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}]
    for slug in ("apple", "pear"):
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug.title()})
    pools: dict[str, dict[str, Any]] = {
        "orchard": {"policy": {"name": "drfh"}, "transparent": True, "decision_interval": "PT5S"},
        "turns-of-two": {"policy": {"name": "tda"}},
        "meadow": {"policy": {"name": "drf"}},
    }
    for slug, options in pools.items():
        fields = {
            "slug": slug,
            "name": f"The {slug}",
            "weights": "explicit",
            "resources": resources,
        }
        assert operator.post("/api/v1/pools/", {**fields, **options}).status == 201
    operator.request("PUT", "/api/v1/pools/meadow/members/apple/", {})
    for slug, size in (("orchard", 12), ("turns-of-two", 15)):
        server = {"name": "s", "capacity": {"cpu": size, "memory": size}, "contributed_by": "apple"}
        path = f"/api/v1/pools/{slug}/"
        operator.post(f"{path}servers/", server)
        operator.post(f"{path}workloads/", [
            {"tenant": "apple", "name": "<b>bold</b>", "demand": {"cpu": 5, "memory": 2}},
            {"tenant": "apple", "name": "gpu", "demand": {"cpu": 1}, "tasks": 1},
            {"tenant": "pear", "name": "b", "demand": {"cpu": 3, "memory": 3.5}},
        ])  # fmt: skip
    rate = {"resource": "cpu", "own": "0.01", "shared": "0.04", "outside": "0.12"}
    start = f"{datetime.now(UTC):%Y-%m}-01T00:00:00Z"
    plan = {"pool": "orchard", "name": "now", "from": start, "rates": [rate]}
    made = operator.post("/api/v1/price-plans/", plan)
    assert operator.post(f"/api/v1/price-plans/{made.body['id']}/publish/", {}).status == 200
    for slug in ("orchard", "turns-of-two"):
        generation = operator.get(f"/api/v1/pools/{slug}/").body["generation"]
        decision_of(operator, slug, generation)
    return service.manage(
        "apikey", "create", "--scope", "tenant", "--tenant", "apple", "--name", "apple-laptop"
    )
