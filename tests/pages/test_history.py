"""A tenant's allocation over time: each step with what was changed before it, without others' names."""

import re
from datetime import timedelta

import pytest
import time_machine

from allocator_service.allocation import history
from allocator_service.allocation.history import Cause, allocation_history
from allocator_service.allocation.long_term.metering import pool_meter
from allocator_service.core.clock import utc_now
from allocator_service.pools.models import MembershipTerms
from allocator_service.pools.server_services import server_drain
from allocator_service.workloads.models import Workload
from allocator_service.workloads.services import (
    WorkloadDraft,
    workload_withdraw,
    workloads_submit,
)
from tests import factories
from tests.pages.browser import browser_of
from tests.pages.test_pages import LAB, words

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def changed(world):
    """Four decisions, ten minutes apart: as it was, by bob, by ada herself, by a server."""
    began = utc_now() - timedelta(hours=2)

    def change_nothing():
        pass

    def change_bobs():
        workload_withdraw(workload=world.bob_workload, now=utc_now())

    def change_own():
        factories.workload(world.lab, "more", 0.2, 1, world.ada, tasks=2, priority=1)

    def drain():
        server_drain(server=world.bob_server, now=utc_now())

    for number, change in enumerate((change_nothing, change_bobs, change_own, drain)):
        with time_machine.travel(began + timedelta(minutes=10 * number)) as clock:
            change()
            clock.shift(timedelta(seconds=5))
            factories.decision(world.lab)
    return world


def test_each_step_says_what_was_changed_before_it(changed):
    now = utc_now()
    since = now - timedelta(days=1)
    found = allocation_history(pool=changed.lab, tenant=changed.ada, since=since, now=now)
    assert not found.cut
    assert [list(step.causes) for step in found.steps] == [
        [],
        [Cause("workload")],
        [Cause("workload", "submit", "more")],
        [Cause("server")],
    ]
    assert [step.end for step in found.steps[:-1]] == [step.start for step in found.steps[1:]]
    assert found.steps[-1].end == now
    assert found.steps[2].changed["more"] == (0.0, 2.0)
    rows = changed.lab.runs.get(effective_until=None).allocations.filter(tenant=changed.ada)
    assert found.steps[-1].tasks == pytest.approx(dict(rows.values_list("workload__name", "tasks")))


def test_decisions_that_change_nothing_for_the_tenant_are_one_step(changed):
    with time_machine.travel(utc_now() + timedelta(minutes=1)):
        workload = factories.workload(changed.lab, "idle", 0, 1, changed.bob, tasks=0)
        factories.decision(changed.lab)
        workload_withdraw(workload=workload, now=utc_now())
        factories.decision(changed.lab)
        now = utc_now()
        steps = allocation_history(
            pool=changed.lab, tenant=changed.ada, since=now - timedelta(days=1), now=now
        ).steps
    assert len(steps) == 4


def test_the_newest_decisions_are_read_where_there_are_too_many(changed, monkeypatch):
    monkeypatch.setattr(history, "MOST_DECISIONS", 2)
    now = utc_now()
    found = allocation_history(
        pool=changed.lab, tenant=changed.ada, since=now - timedelta(days=1), now=now
    )
    assert (len(found.steps), found.cut) == (2, True)
    assert found.steps[-1].causes == [Cause("server")]


@pytest.mark.parametrize(("size", "numbers"), [(1, {"0", "1"}), (0.5, {"0", "0.1"})])
def test_the_axis_of_whole_tasks_has_whole_numbers(world, size, numbers):
    pool = factories.pool("single", mode="divisible")
    factories.server(pool, "s", size, size, world.ada)
    work = factories.workload(pool, "one", 1, 1, world.ada, tasks=1)
    with time_machine.travel(utc_now() - timedelta(hours=2)):
        factories.decision(pool)
    workload_withdraw(workload=work, now=utc_now())
    factories.decision(pool)
    page = browser_of(world.as_ada).text("/my/pools/single/history/")
    axis = set(re.findall(r"<text[^>]*>([0-9.]+)</text>", page))
    assert numbers <= axis
    assert any("." in number for number in axis) == (size < 1)


def test_the_pages_show_it_without_names_of_others(changed):
    ada = browser_of(changed.as_ada)
    page = words(ada.text(LAB))
    assert "Your allocation in the last 24 hours" in page
    assert "Before it servers changed." in page
    for days in ("1", "7", "30"):
        text = ada.text(f"{LAB}history/?days={days}")
        assert "Before it you submitted more." in words(text)
        assert "Before it another member changed its workloads." in words(text)
        assert "simulation" not in text
        assert text.count("<svg") == 2  # for pages and for phones
    for days in ("2", "", "x", "%00"):
        assert ada.get(f"{LAB}history/?days={days}").status_code == 400
    with time_machine.travel(utc_now() + timedelta(days=9)):
        assert "It did not change in this period." in words(
            browser_of(factories.client("tenant", changed.ada)).text(f"{LAB}history/")
        )


def test_the_api_has_the_same_steps(changed):
    path = "/api/v1/pools/lab/members/ada/allocation-history/"
    found = changed.as_ada.get(f"{path}?days=1").json()
    assert found["complete"]
    causes = [step["causes"] for step in found["steps"]]
    assert causes == [
        [],
        [
            {
                "kind": "workload",
                "action": None,
                "workload": None,
                "group": None,
                "resource": None,
                "cluster": None,
            }
        ],
        [
            {
                "kind": "workload",
                "action": "submit",
                "workload": "more",
                "group": None,
                "resource": None,
                "cluster": None,
            }
        ],
        [
            {
                "kind": "server",
                "action": None,
                "workload": None,
                "group": None,
                "resource": None,
                "cluster": None,
            }
        ],
    ]
    assert {"workload": "more", "tasks": 2.0} in found["steps"][2]["tasks"]
    assert changed.as_bob.get(path).status_code == 404
    for days in ("0", "31", "x"):
        assert changed.as_ada.get(f"{path}?days={days}").status_code == 400


def test_a_request_for_several_members_is_each_ones_own_submission(world):
    """Two workloads of ada and three of bob at once, between requests of one member each."""
    lab = world.lab
    began = utc_now() - timedelta(hours=1)
    with time_machine.travel(began):
        factories.decision(lab)
    minute = timedelta(minutes=1)
    demand = {world.ada: factories.vector(0.2, 1), world.bob: factories.vector(1, 0.2)}
    with time_machine.travel(began + minute):
        factories.workload(lab, "earlier", 0.1, 0.1, world.eve, tasks=1)
        drafts = [
            WorkloadDraft(of, name, demand[of], tasks=1, priority=1)
            for of, name in (
                (world.ada, "a1"),
                (world.bob, "b1"),
                (world.ada, "a2"),
                (world.bob, "b2"),
                (world.bob, "b3"),
            )
        ]
        workloads_submit(pool=lab, drafts=drafts, now=utc_now())
        factories.decision(lab)
    with time_machine.travel(began + 2 * minute):
        factories.workload(lab, "a3", 0.2, 1, world.ada, tasks=1, priority=1)
        workload_withdraw(workload=lab.workloads.get(name="b3"), now=utc_now())
        factories.decision(lab)
    now = utc_now()

    def causes(tenant):
        found = allocation_history(pool=lab, tenant=tenant, since=now - timedelta(days=1), now=now)
        return [
            [cause for cause in step.causes if cause.kind == "workload"] for step in found.steps
        ]

    another = Cause("workload")
    assert causes(world.ada)[1:] == [
        [another, Cause("workload", "submit", "a1", 1)],
        [another, Cause("workload", "submit", "a3")],
    ]
    assert causes(world.bob)[1:] == [
        [another, Cause("workload", "submit", "b1", 2)],
        [another, Cause("workload", "withdraw", "b3")],
    ]
    page = words(browser_of(world.as_ada).text(f"{LAB}history/"))
    assert "another member changed its workloads, you submitted a1 and 1 more." in page
    path = "/api/v1/pools/lab/members/bob/allocation-history/"
    for reader in (world.as_bob, factories.client()):
        named = [cause for step in reader.get(path).json()["steps"] for cause in step["causes"]]
        own = {
            "kind": "workload",
            "action": "submit",
            "workload": "b1",
            "group": None,
            "resource": None,
            "cluster": None,
        }
        assert own in named


def test_a_limit_that_begins_or_ends_by_its_dates_is_a_cause(world):
    """A limit of ada's group, one of ada's workload and one of another group, ten minutes apart."""
    lab = world.lab
    began = utc_now() - timedelta(hours=2)
    minutes = [began + timedelta(minutes=10 * number) for number in range(6)]
    with time_machine.travel(began - timedelta(minutes=5)):
        factories.group(lab, "ours")
        factories.group(lab, "theirs")
        factories.member(lab, world.ada, "ours")
        factories.member(lab, world.bob, "theirs")
        factories.limit(lab, "ours", {"cpu": 0.5}, start=minutes[1], end=minutes[3])
        factories.limit(lab, "theirs", {"cpu": 0.2}, start=minutes[2])
        Workload.objects.filter(pk=world.ada_workload.pk).update(
            limit=[{"where": {}, "amount": {"cpu": "0.1"}, "from": minutes[4].isoformat()}],
            created_at=began,
        )
        terms = MembershipTerms.objects.filter(membership__tenant=world.ada, end=None)
        limit = [{"where": {}, "amount": {"cpu": "0"}, "from": minutes[5].isoformat()}]
        terms.update(limit=limit, start=began)
    for at in (began, *minutes[1:]):
        with time_machine.travel(at + timedelta(seconds=5)):
            factories.decision(lab)
    now = utc_now()
    since = now - timedelta(days=1)

    def causes(tenant):
        found = allocation_history(pool=lab, tenant=tenant, since=since, now=now)
        return [list(step.causes) for step in found.steps]

    assert causes(world.ada) == [
        [],
        [Cause("limit", "begin", group="ours")],
        [Cause("limit", "end", group="ours")],
        [Cause("limit", "begin", world.ada_workload.name)],
        [Cause("limit", "begin")],
    ]
    assert [Cause("limit", "begin", group="theirs")] in causes(world.bob)
    named = {cause.group for step in causes(world.bob) for cause in step}
    assert named <= {"", "theirs"}
    text = words(browser_of(world.as_ada).text(f"{LAB}history/"))
    assert "Before it a limit of the group ours began." in text
    assert "a limit of the group ours ended" in text
    assert "Before it a limit of yours began." in text
    assert "theirs" not in text
    document = world.as_ada.get("/api/v1/pools/lab/members/ada/allocation-history/").json()
    named = [cause for step in document["steps"] for cause in step["causes"]]
    assert {
        "kind": "limit",
        "action": "begin",
        "workload": None,
        "group": "ours",
        "resource": None,
        "cluster": None,
    } in named


def test_pictures_have_the_clocks_of_the_pool_as_the_rest_of_the_page_has(world):
    world.lab.timezone = "Asia/Kathmandu"
    world.lab.save(update_fields=["timezone"])
    factories.decision(world.lab)
    pool_meter(pool_id=world.lab.pk, now=utc_now() + timedelta(minutes=1))
    page = browser_of(world.as_ada).text(LAB)
    assert page.count("<svg") > 2
    assert "+0545" in page
    assert "UTC" not in page
