"""A sweep by real workers: one is killed in the middle, messages are lost, one is cancelled.

And the session of docs/guides/backtests.md, as it stands.
"""

import csv
import gzip
import os
import signal
import time

import pytest
import redis
from playwright.sync_api import expect

from allocator_service.backtests.models import Cell
from tests.backtests import SACCT
from tests.guides import run_guide
from tests.live.accessibility import findings

ALL = "/api/v1/backtests/"
SERVERS = [{"capacity": {"cpu": 8, "memory": 32}, "count": 40}]


def trace(jobs, tasks):
    """Alike jobs of ten tenants, more than the servers can take at once."""
    lines = ["tenant,submit,duration,demand.cpu,demand.memory,tasks"]
    lines += [
        f"t{number % 10},{number * 2},{2000 + number % 700},{1 + number % 3},{2 + number % 5},{tasks}"
        for number in range(jobs)
    ]
    return "\n".join(lines)


def asked(jobs, seeds, tasks=1):
    return {
        "trace": {"format": "csv", "content": trace(jobs, tasks)},
        "servers": SERVERS,
        "policies": [{"name": "drfh", "options": {"placement": "two-choices"}}],
        "seeds": list(range(seeds)),
    }


def until(condition, seconds=180.0):
    """What a condition returns once it is true: backtests give way to whatever else is at work."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {condition}")


@pytest.fixture
def sweeping(service):
    service.start("backtests")
    yield service
    os.killpg(service.processes["backtests"].pid, signal.SIGKILL)
    service.processes["backtests"].wait()


def kill(service):
    os.killpg(service.processes["backtests"].pid, signal.SIGKILL)
    service.processes["backtests"].wait()


def broker(service):
    socket, _, query = (
        service.environment["REDIS_URL"].removeprefix("redis+socket://").partition("?")
    )
    return redis.Redis(unix_socket_path=socket, db=int(query.rpartition("=")[2]))


def rows(service, backtest):
    """(position, status, attempts, id) of the cells, as the database has them."""
    shown = service.manage(
        "shell",
        "--verbosity",
        "0",
        "--command",
        f"from {Cell.__module__} import Cell; print([(c.position, c.status, c.attempts)"
        f" for c in Cell.objects.filter(backtest='{backtest}').order_by('position')])",
    )
    return eval(shown.splitlines()[-1])


def test_what_a_killed_worker_finished_stays_and_the_rest_is_done_once(sweeping, operator):
    path = operator.post(ALL, asked(20_000, 6)).headers["Location"]
    until(lambda: operator.get(path).body["progress"] > 20)
    kill(sweeping)
    before = rows(sweeping, path.split("/")[-2])
    finished = [position for position, status, _ in before if status == "succeeded"]
    assert 0 < len(finished) < 6
    assert operator.get(path).body["status"] == "running"
    broker(sweeping).flushdb()
    sweeping.start("backtests")
    until(lambda: operator.get(path).body["status"] == "succeeded")
    attempts = {position: tried for position, _, tried in rows(sweeping, path.split("/")[-2])}
    assert {attempts[position] for position in finished} == {1}
    assert sorted(attempts.values())[-1] <= 2
    assert sum(attempts.values()) <= 7
    column = operator.get(f"{path}results/").body["columns"][0]
    assert column["seeds"] == list(range(6))


def test_a_worker_is_known_to_be_there_before_anything_is_asked(sweeping, operator):
    until(lambda: operator.request("GET", "/readyz").body["checks"]["backtests"] == "ok", 20)


def test_a_cancelled_sweep_stops_in_the_middle_of_a_simulation(sweeping, operator):
    path = operator.post(ALL, asked(2_000, 1, tasks=300)).headers["Location"]
    until(lambda: 0 < operator.get(path).body["progress"] < 90)
    assert operator.post(f"{path}cancel/", {}).body["status"] == "cancelled"
    log = sweeping.logs / "backtests.log"
    until(lambda: "backtest_cell_stopped" in log.read_text())
    assert operator.request("GET", f"{path}results/").status == 409


def test_the_session_of_the_guide_ends_with_a_page_to_send_on(sweeping, tmp_path):
    key = sweeping.manage("apikey", "create", "--scope", "operator", "--name", "backtests-guide")
    (tmp_path / "quarter.gz").write_bytes(gzip.compress(SACCT.encode()))
    run_guide("backtests.md", service=sweeping, folder=tmp_path, KEY=key)
    page = (tmp_path / "quarter.html").read_text()
    assert page.startswith("<!doctype html>")
    rows = list(csv.DictReader((tmp_path / "quarter.csv").open()))
    assert {row["policy"] for row in rows} == {"static", "drf", "drfh", "h-mrf", "slots"}
    assert {row["tenant"] for row in rows} >= {"physics", "chemistry"}


def test_the_admin_s_page_takes_in_the_result_by_itself(sweeping, operator, admin_page):
    """It is the same document before and after, and asks no more once it has the result."""
    kill(sweeping)
    made = operator.post(ALL, asked(40, 1)).body["id"]
    admin_page.goto(f"/admin/backtests/backtest/{made}/change/")
    expect(admin_page.get_by_text("Look again")).to_be_visible()
    admin_page.evaluate("window.kept = true")
    assert findings(admin_page) == []
    sweeping.start("backtests")
    expect(admin_page.locator("#backtest")).to_contain_text("Who gains", timeout=120_000)
    assert admin_page.evaluate("window.kept") is True
    expect(admin_page.locator("#live")).to_contain_text("Updated at")
    expect(admin_page.get_by_text("Look again")).to_have_count(0)
    assert findings(admin_page) == []
    requested: list[str] = []
    admin_page.on("request", lambda request: requested.append(request.url))
    admin_page.wait_for_timeout(5_000)  # longer than a page that waits lets pass between two looks
    assert requested == []
