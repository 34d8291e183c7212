"""Pages of a pool with clusters of long names, in a real browser on a laptop and on a phone."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.live.accessibility import NARROW, findings
from tests.live.conftest import decision_of, opened

LONG = "cluster" * 9  # 63 characters without a place to break
WIDER = """() => [...document.querySelectorAll("html, .scrolled, .results, .wide")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .map((each) => `${each.tagName} ${each.ariaLabel} ${each.scrollWidth - each.clientWidth} px`)"""
PICTURES = os.environ.get("ALLOCATOR_PICTURES")  # a folder, in which each page is kept as a picture


@pytest.fixture(scope="module")
def clusters(service, operator):
    """The key of a tenant of a pool with two clusters, of which one agent has no decision yet."""
    fields = {"slug": "long-clusters", "name": "Long clusters", "weights": "explicit"}
    resources = [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}]
    operator.post("/api/v1/pools/", {**fields, "resources": resources, "policy": {"name": "drfh"}})
    pool = "/api/v1/pools/long-clusters"
    for slug in ("cedar", "larch"):
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug.title()})
    for cluster, cpu in ((LONG, 12), ("b" + LONG[1:], 8)):
        server = {"name": f"s{cpu}", "capacity": {"cpu": cpu, "memory": 4 * cpu}}
        server |= {"labels": {"cluster": cluster}, "contributed_by": "cedar"}
        assert operator.post(f"{pool}/servers/", server).status == 201
    demand = {"cpu": 1, "memory": 2}
    for slug in ("cedar", "larch"):
        work = {"tenant": slug, "name": "work", "demand": demand}
        assert operator.post(f"{pool}/workloads/", work).status == 201
    generation = operator.get(f"{pool}/").body["generation"]
    decision = decision_of(operator, "long-clusters", generation)
    for cluster, run in ((LONG, decision["run"]["id"]), ("b" + LONG[1:], None)):
        options = ("--pool", "long-clusters", "--cluster", cluster)
        agent = service.client("agent", f"agent-{cluster[:9]}", *options)
        rows = [
            {"tenant": slug, "applied": {"cpu": "7", "memory": "12"},
             "used": {"cpu": "3", "memory": "5"}, "pending_tasks": 0, "running_tasks": 3}
            for slug in ("cedar", "larch")
        ]  # fmt: skip
        report = {
            "agent": f"agent-of-{cluster}"[:63], "target": "slurm", "run": run, "interval": "PT60S",
            "reported_at": datetime.now(UTC).isoformat(), "tenants": rows,
        }  # fmt: skip
        assert agent.request("PUT", f"{pool}/enforcement/", report).status == 200
    return service.manage(
        "apikey", "create", "--scope", "tenant", "--tenant", "cedar", "--name", "cedar-laptop"
    )


def too_wide(page, name):
    """Return at which widths a page, or a table of it, is wider than it may be."""
    found = []
    for width in (1280, NARROW):
        page.set_viewport_size({"width": width, "height": 900})
        if PICTURES:
            picture = Path(PICTURES) / f"{name}-{width}.png"
            page.screenshot(path=picture, full_page=True)
        found += [f"{name} {width}: {each} too wide" for each in page.evaluate(WIDER)]
    return found


def test_long_names_of_clusters_break_in_the_admin(admin_page, clusters):
    admin_page.goto("/admin/pools/pool/?q=long-clusters")
    pool = admin_page.locator("#result_list tbody th a").first.get_attribute("href")
    overview = re.sub("change/.*|overview/.*", "", str(pool))
    found = []
    admin_page.goto(str(pool))
    tabs = admin_page.locator(".tabs a").evaluate_all("all => all.map(one => one.href)")
    for path in [*tabs, f"{overview}overview/"]:
        admin_page.goto(path)
        found += too_wide(admin_page, f"tab-{path.rstrip('/').rpartition('/')[2]}")
        found += findings(admin_page) if "enforcement" in path else []
    admin_page.goto(next(path for path in tabs if "enforcement" in path))
    expect(admin_page.locator("#content")).to_contain_text("It has applied no decision yet.")
    expect(admin_page.locator("#content")).not_to_contain_text("generation none")
    for path in ("/admin/", "/admin/enforcement/agent/"):
        admin_page.goto(path)
        found += too_wide(admin_page, path.strip("/").replace("/", "-"))
        expect(admin_page.locator("#content")).to_contain_text(LONG)
        expect(admin_page.locator("#content")).to_contain_text("no decision yet")
    assert not found, "\n".join(found)


def test_a_tenants_page_states_entitlement_and_use_of_each_cluster(clusters, chromium, service):
    with opened(chromium, base_url=service.url, reduced_motion="reduce") as page:
        page.goto("/my/")
        page.fill("#key", clusters)
        page.click("button:has-text('Sign in')")
        page.goto("/my/pools/long-clusters/")
        assert too_wide(page, "my-pool") == []
        assert findings(page) == []
