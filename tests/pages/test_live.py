"""Pages that keep themselves up to date: what they load, what their state says, and how much is sent."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service import core
from allocator_service.core.clock import utc_now
from allocator_service.pools.server_services import server_drain
from api.pages import history
from tests import factories
from tests.pages.browser import browser_of
from tests.pages.test_history import changed
from tests.pages.test_pages import LAB

__all__ = ["changed"]  # fixtures of other modules

pytestmark = pytest.mark.django_db(transaction=True)
STATIC = Path(history.__file__).parents[1] / "static" / "pages"
SHARED = Path(core.__file__).parent / "static" / "live"
STATE = f"{LAB}state/"
LIVE = (LAB, f"{LAB}history/")
AT_MOST = 150_000


@pytest.fixture
def ada(world):
    factories.decision(world.lab)
    return browser_of(world.as_ada)


def state_on(page):
    [state] = re.findall('data-state="([0-9a-f]+)"', page)
    return state


def test_a_page_knows_its_state_and_is_told_once_it_differs(world, ada):
    with time_machine.travel(utc_now(), tick=False):
        for path in LIVE:
            page = ada.text(path)
            assert f'data-live="{STATE}"' in page
            state = state_on(page)
            known = ada.get(STATE, If_None_Match=f'"{state}"')
            assert (known.status_code, known.content) == (304, b"")
        fresh = ada.get(STATE)
        assert (fresh.status_code, fresh.content.decode()) == (200, state)
        assert fresh["Cache-Control"] == "no-store"
        assert fresh["ETag"] == f'"{state}"'
        seen = [state]

        def differs():
            answer = ada.get(STATE, If_None_Match=f'"{seen[-1]}"')
            assert answer.status_code == 200
            seen.append(answer.content.decode())
            assert seen[-1] == state_on(ada.text(LAB))

        server_drain(server=world.bob_server, now=utc_now())
        differs()  # the generation
        run = factories.decision(world.lab)
        differs()
        factories.enforcement_report(run)
        differs()
        assert len(set(seen)) == 4
    with time_machine.travel(utc_now() + timedelta(seconds=3), tick=False):
        assert ada.get(STATE, If_None_Match=f'"{seen[-1]}"').status_code == 304


def test_the_state_takes_a_few_statements(ada):
    ada.get(STATE)
    with CaptureQueriesContext(connection) as asked:
        ada.get(STATE)
    assert len(asked) <= 16, [query["sql"][:80] for query in asked]


def test_scripts_are_files_of_ours_and_run_on_these_pages_alone(ada):
    for path in LIVE:
        answer = ada.get(path)
        policy = answer["Content-Security-Policy"]
        assert "script-src 'self'; connect-src 'self'" in policy
        assert "unsafe" not in policy
        text = answer.content.decode()
        scripts = re.findall("<script[^>]*>[^<]*</script>", text)
        assert len(scripts) == text.count("<script") == 3
        assert all(
            re.fullmatch('<script src="/static/[^"]+" defer></script>', each) for each in scripts
        )
        assert not re.search(r"\son[a-z]+=", text)
    assert "<script" not in ada.text("/my/")
    assert "script-src" not in ada.get("/sign-in/")["Content-Security-Policy"]


def test_the_vendored_script_has_its_licence_beside_it():
    assert {file.name for file in STATIC.glob("*.js")} == {"chart.js"}
    names = {file.name for file in SHARED.glob("*.js")}
    assert names == {"live.js", "idiomorph-0.8.0.min.js"}
    assert "Zero-Clause BSD" in (SHARED / "idiomorph-0.8.0.LICENSE.txt").read_text()
    assert "eval(" not in (SHARED / "idiomorph-0.8.0.min.js").read_text()


def test_a_history_of_many_steps_is_sent_as_means(changed, monkeypatch):
    ada = browser_of(changed.as_ada)
    whole = ada.text(f"{LAB}history/?days=1")
    assert "means of" not in whole
    monkeypatch.setattr(history, "STEPS_DRAWN", 3)
    page = ada.text(f"{LAB}history/?days=1")
    assert re.search(r"Tasks of your workloads, means of [0-9]+\s", page)
    assert len(re.findall("<rect x[^>]*><title>", page)) <= 3 * history.LINES_DRAWN
    assert page.count("<li><strong>") == whole.count("<li><strong>")  # the list has each step


def test_means_keep_the_amount(changed):
    now = utc_now()
    found = history.allocation_history(
        pool=changed.lab, tenant=changed.ada, since=now - timedelta(days=1), now=now
    )
    names = sorted({name for step in found.steps for name in step.tasks})
    means, width = history._means(found.steps, names)
    for name in names:
        whole = sum(
            step.tasks.get(name, 0) * (step.end - step.start).total_seconds()
            for step in found.steps
        )
        drawn = sum(tasks[name] * width.total_seconds() for _, _, tasks in means)
        assert drawn == pytest.approx(whole, rel=1e-4)


def test_what_a_page_loads_is_bounded(changed, monkeypatch):
    """The largest picture that is drawn, and every file of the page."""
    ada = browser_of(changed.as_ada)
    loaded = [*STATIC.glob("*.js"), *STATIC.glob("*.css"), *SHARED.glob("*.js")]
    files = sum(file.stat().st_size for file in loaded)
    tasks = {f"workload-of-a-long-name-{number}": 1.25 * number for number in range(6)}
    now = utc_now()
    steps = [
        history.Step(
            now - timedelta(minutes=2 * (count + 1)),
            now - timedelta(minutes=2 * count),
            {name: value + count for name, value in tasks.items()},
            {name: (value, value + count) for name, value in tasks.items()},
            [],
        )
        for count in range(2000)
    ][::-1]
    monkeypatch.setattr(
        history, "allocation_history", lambda **_: history.AllocationHistory(steps, cut=True)
    )
    for path in LIVE:
        sent = len(ada.get(path).content) + files
        assert sent < AT_MOST, (path, sent)
        print(path, sent)
