"""A tenant's tasks under other policies: its own alone, computed by a worker at a bounded cost."""

import re
from datetime import timedelta
from decimal import Decimal
from html import unescape
from pathlib import Path

import pytest
import time_machine

import policies
from allocator_service.allocation.policies import policy_title
from allocator_service.backtests import comparisons
from allocator_service.backtests.comparisons import (
    COMPARISON_JOBS,
    LEAST_INTERVAL,
    comparison_run,
    tenant_comparison,
)
from allocator_service.backtests.models import PolicyComparison
from allocator_service.backtests.side_by_side import BESIDE
from allocator_service.core.clock import utc_now
from allocator_service.core.jobs import jobs_due
from allocator_service.workloads.gangs import Gang, Piece
from api.pages.comparisons import refusal_text
from tests import factories
from tests.pages.browser import browser_of, page_waits

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/my/pools/lab/policies/"


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Give policies time on a busy machine, where a kernel may be compiled first."""
    monkeypatch.setattr(comparisons, "SECONDS_EACH", 60.0)


@pytest.fixture
def lab(world):
    world.lab.transparent = True
    world.lab.save()
    return world


def work():
    """Compute the comparisons that are due, as a worker would; return how many."""
    due = jobs_due(COMPARISON_JOBS, now=utc_now(), again=False)
    for pool_id in due:
        comparison_run(pool_id=pool_id, clock=utc_now)
    return len(due)


def table(text):
    """Rows of the page's table by policy: tasks, and the difference."""
    text = re.sub('<span class="cell-label">.*?</span>', "", text)
    cells = re.findall('<tr[^>]*><th scope="row">([^<]*)</th>(.*?)</tr>', text)
    return {
        name: [re.sub("<[^>]*>", "", cell) for cell in re.findall("<td[^>]*>(.*?)</td>", rest)]
        for name, rest in cells
    }


def test_a_page_never_computes_and_shows_the_result_once_a_worker_has_it(lab, monkeypatch):
    run, ada = factories.decision(lab.lab), browser_of(lab.as_ada)

    def refuse(*_, **__):
        raise AssertionError("computed in a request")

    with monkeypatch.context() as patch:
        patch.setattr(policies, "compare_documents", refuse)
        first = ada.text(PAGE)
        assert "It is being computed" in first
        assert page_waits(first)
        ada.text(PAGE)
    assert work() == 1
    text = unescape(ada.text(PAGE))
    assert not page_waits(text)
    assert f"from the input of generation {run.generation}:" in text
    rows = table(text)
    assert rows[policy_title("drfh")][1] == "now"
    assert rows.keys() == {policy_title(name) for name in BESIDE}
    assert work() == 0


def test_the_numbers_are_those_that_each_policy_gives(lab):
    run = factories.decision(lab.lab)
    browser_of(lab.as_ada).text(PAGE)
    work()
    found = tenant_comparison(pool=lab.lab, tenant=lab.ada)
    document = comparisons.input_of(run)
    for column in found.columns[1:]:
        asked = {"name": column.name}
        if column.name in ("drf", "asset", "ceei"):
            asked["mode"] = "divisible"
        answer = policies.evaluate_document({**document, "policy": asked})
        for row in answer["allocations"]:
            if row["tenant"] == "ada":
                assert column.tasks[row["workload"]["name"]] == pytest.approx(row["tasks"])
    decided = {row.workload.name: row.tasks for row in run.allocations.filter(tenant=lab.ada)}
    assert found.columns[0].tasks == decided


def test_a_tenant_sees_its_own_numbers_alone(lab):
    """Nothing of bob's is on ada's page, and a tenant whose name is a number has its own."""
    number = factories.tenant("42")
    factories.member(lab.lab, number, None)
    factories.workload(lab.lab, "bobs-secret", 1, 1, lab.bob)
    factories.workload(lab.lab, "of-a-number", 1, 1, number)
    factories.decision(lab.lab)
    ada = browser_of(lab.as_ada)
    ada.text(PAGE)
    work()
    text = ada.text(PAGE)
    assert "bob" not in text
    assert "of-a-number" not in text
    assert "member-" not in text
    assert list(tenant_comparison(pool=lab.lab, tenant=number).columns[0].tasks) == ["of-a-number"]
    assert set(tenant_comparison(pool=lab.lab, tenant=lab.bob).columns[0].tasks) == {
        "bobs-secret", "simulation",
    }  # fmt: skip


def test_a_private_pool_shows_and_computes_nothing(world):
    factories.decision(world.lab)
    ada = browser_of(world.as_ada)
    assert "shows its members their own part only" in ada.text(PAGE)
    assert not PolicyComparison.objects.exists()
    assert f'href="{PAGE}"' not in ada.text("/my/pools/lab/")
    world.lab.transparent = True
    world.lab.save()
    assert f'href="{PAGE}"' in ada.text("/my/pools/lab/")


def test_without_a_decision_there_is_nothing_to_compare(lab):
    assert "there is nothing to compare" in browser_of(lab.as_ada).text(PAGE)
    assert not PolicyComparison.objects.exists()


def test_a_later_decision_is_compared_on_a_look_at_most_once_a_minute(lab):
    ada, bob = browser_of(lab.as_ada), browser_of(lab.as_bob)
    start = utc_now()
    with time_machine.travel(start, tick=False) as clock:
        first = factories.decision(lab.lab)
        ada.text(PAGE)
        assert work() == 1
        factories.workload(lab.lab, "more", 1, 1, lab.ada)
        clock.shift(timedelta(seconds=5))
        second = factories.decision(lab.lab)
        assert second.pk != first.pk
        assert work() == 0  # without a look
        text = ada.text(PAGE)
        assert f"from the input of generation {first.generation}:" in text
        assert "when you look again in a minute" in text
        assert work() == 0
        clock.shift(LEAST_INTERVAL)
        text = ada.text(PAGE)
        assert "It is being compared" in text
        assert page_waits(text)
        assert f"from the input of generation {first.generation}:" in text
        clock.shift(LEAST_INTERVAL)
        factories.workload(lab.lab, "even-more", 1, 1, lab.ada)
        factories.decision(lab.lab)
        bob.text(PAGE)  # while the earlier one waits
        assert PolicyComparison.objects.get().run_id == second.pk
        assert work() == 1
        assert f"from the input of generation {second.generation}:" in ada.text(PAGE)
    assert PolicyComparison.objects.count() == 1


def test_a_policy_that_takes_too_long_or_fails_costs_no_other_its_answer(lab, monkeypatch):
    factories.decision(lab.lab)
    compare = policies.compare_documents

    def slow(document, asked, *, time_limit):
        if asked[0]["name"] == "ceei":
            return compare(document, asked, time_limit=1e-9)
        if asked[0]["name"] == "mrfs":
            raise ArithmeticError("a defect")
        return compare(document, asked, time_limit=time_limit)

    monkeypatch.setattr(policies, "compare_documents", slow)
    ada = browser_of(lab.as_ada)
    ada.text(PAGE)
    work()
    text = ada.text(PAGE)
    assert f"<strong>{policy_title('ceei')}</strong>: It did not finish in the time" in text
    failed = "It failed on this pool. Your operator finds the cause in the log of the service."
    assert f"<strong>{policy_title('mrfs')}</strong>: {failed}" in text
    assert table(unescape(text)).keys() >= {policy_title(name) for name in ("static", "drf")}


def test_a_pool_with_groups_names_the_policies_that_refuse_it_in_words(lab):
    factories.group(lab.lab, "science")
    factories.member(lab.lab, lab.ada, "science")
    factories.decision(lab.lab)
    ada = browser_of(lab.as_ada)
    ada.text(PAGE)
    work()
    text = ada.text(PAGE)
    assert text.count("It does not decide by groups or tiers, which this pool has.") == 6
    assert "policy.no_groups" not in text
    assert policy_title("drf") in table(unescape(text))


def test_a_comparison_whose_workers_die_fails_and_can_be_requested_again(lab):
    factories.decision(lab.lab)
    ada = browser_of(lab.as_ada)
    with time_machine.travel(utc_now(), tick=False) as clock:
        ada.text(PAGE)
        PolicyComparison.objects.update(attempts=3)
        work()
        assert "could not be computed" in ada.text(PAGE)
        clock.shift(LEAST_INTERVAL)
        assert "It is being computed" in ada.text(PAGE)
        work()
        assert table(unescape(ada.text(PAGE)))


def test_a_pool_of_whole_tasks_names_the_policies_of_divisible_shares(lab):
    ada = browser_of(lab.as_ada)
    factories.decision(lab.lab)
    ada.text(PAGE)
    work()
    assert "divisible shares; not whole tasks" not in ada.text(PAGE)
    lab.lab.policy_mode = "indivisible"
    lab.lab.save()
    PolicyComparison.objects.all().delete()
    factories.workload(lab.lab, "more", 1, 1, lab.ada)
    factories.decision(lab.lab)
    ada.text(PAGE)
    work()
    text = ada.text(PAGE)
    marked = re.findall(
        r'<th scope="row">([^<]*)<br><span class="soft">divisible shares; not', text
    )
    assert marked == [policy_title("ceei")]


def test_a_pool_with_gangs_states_which_policies_do_not_place_them(lab):
    lab.lab.policy_mode = "indivisible"
    lab.lab.save()
    gang = Gang([Piece(2, {"cpu": Decimal("0.1"), "memory": Decimal("0.5")})])
    factories.workload(lab.lab, "gang", 0.2, 1, lab.ada, gang=gang, tasks=1)
    factories.decision(lab.lab)
    ada = browser_of(lab.as_ada)
    ada.text(PAGE)
    work()
    text = ada.text(PAGE)
    assert (
        f"<strong>{policy_title('mrfs')}</strong>: It does not run the gangs of this pool" in text
    )
    assert "(workload.pieces)" not in text


def test_each_refusal_of_a_policy_has_its_reason_in_words():
    """A code of the library is either in words, or cannot be of a pool's stored input."""
    source = "".join(each.read_text() for each in Path("policies").rglob("*.py"))
    raised = set(
        re.findall(r'(?:NotApplicable|TooLarge|Failed|Timeout)Error\(\s*"([a-z_.]+)"', source)
    )
    not_of_a_decision = {"policy.history", "policy.owed", "policy.no_changes"}
    of_a_problem = {code for code in raised if not code.startswith("trace.")}
    for code in of_a_problem - not_of_a_decision:
        assert code not in refusal_text(code), code
    assert {"policy.no_groups", "workload.pieces", "solve.timeout", "solve.failed"} <= raised
