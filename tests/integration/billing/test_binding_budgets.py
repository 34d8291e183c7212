"""Budgets that bind: months with clock changes, corrections, late use, and their decisions."""

from datetime import timedelta
from decimal import Decimal
from random import Random
from types import SimpleNamespace

import pytest

from allocator_service.allocation.models import Run
from allocator_service.allocation.runs.budgets import budgets_watch
from allocator_service.billing.balances import balances, budgets_for
from allocator_service.billing.budgets import (
    BudgetDraft,
    BudgetSettings,
    Periods,
    budget_create,
    budget_retire,
    budgets_check,
)
from allocator_service.core.models import Event
from allocator_service.core.quantities import Resource
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.models import Entry, Kind
from allocator_service.ledger.reporting.groups import DividedPeriod
from allocator_service.ledger.reporting.periods import Period
from allocator_service.pools.budgets import Then
from allocator_service.pools.group_services import (
    GroupDraft,
    GroupSettings,
    group_update,
    groups_create,
)
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import RecomputeJob
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.billing.conftest import at, seal, used
from tests.integration.conftest import recomputed, settings

JANUARY = at(1, 1)
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def interval(request):
    return getattr(request, "param", "PT6H")


@pytest.fixture
def lab(db, tenant, interval):
    """Ten cores. a and b of the group ml and c beside it want all of them."""
    chosen = settings(
        timezone="Europe/Berlin",
        resources=[Resource("cpu", "core")],
        decision_interval=interval,
    )
    pool = pool_create(slug="lab", settings=chosen, now=JANUARY)
    (ml,) = groups_create(
        pool=pool, drafts=[GroupDraft("ml", GroupSettings("ML", None))], now=JANUARY
    )
    draft = ServerDraft("server", [Decimal(10)], None)
    servers_contribute(pool=pool, drafts=[draft], now=JANUARY)
    for slug, group in (("a", "ml"), ("b", "ml"), ("c", None)):
        admit(pool, tenant(slug), group, JANUARY)
        work = WorkloadDraft(tenant(slug), "work", [Decimal(1)])
        workloads_submit(pool=pool, drafts=[work], now=JANUARY)
    return SimpleNamespace(pool=pool, ml=ml, tenant=tenant)


def admit(pool, tenant, group, now):
    present = pool.memberships.filter(tenant=tenant).first()
    member_put(
        pool=pool,
        tenant=tenant,
        weight=Decimal(1),
        best_effort=False,
        group=group,
        version=present.version if present else None,
        now=now,
    )


def budget(pool, node, amount, *, now=JANUARY, carry="0", then=Then.STOP, **periods):
    terms = BudgetSettings(Decimal(amount), [50, 100], Decimal(carry), then)
    draft = BudgetDraft(node, "cpu", terms, Periods(**periods))
    return budget_create(pool=pool, draft=draft, now=now)


def tasks(run):
    rows = run.allocations.select_related("tenant")
    return {row.tenant.slug: (round(row.tasks, 9), row.limited_by) for row in rows}


def decide_through(pool, end):
    """Decide whenever a decision is due, as relay and workers do. Return the runs."""
    runs = []
    while True:
        job = RecomputeJob.objects.get(pool=pool)
        if job.wanted == job.settled or job.run_after >= end:
            return runs
        runs.append(recomputed(pool, job.run_after))


def used_by_entries(pool, tenants, start, end):
    """Resource-seconds from the entries alone, without the ledger's sums."""
    kinds = dict(Entry.objects.filter(pool=pool).values_list("pk", "kind"))
    total = Decimal(0)
    for entry in Entry.objects.filter(pool=pool, tenant__slug__in=tenants):
        counts_as = kinds[entry.corrects] if entry.kind == Kind.CORRECTION else entry.kind
        seconds = (min(entry.end, end) - max(entry.start, start)).total_seconds()
        if counts_as == Kind.USAGE and seconds > 0:
            total += entry.quantity * Decimal(repr(seconds))
    return total


def balance(pool, now):
    (found,) = balances(pool=pool, budgets=list(budgets_for(pool, None)), now=now)
    return found


@pytest.mark.parametrize(("interval", "longest"), [("PT6H", 6), ("P1D", 25)], indirect=["interval"])
@pytest.mark.parametrize("then", [Then.STOP, Then.LAST])
def test_six_months_stop_in_the_interval_in_which_the_ledger_crosses(lab, longest, then):
    budget(lab.pool, lab.ml, "1000", then=then)
    runs = decide_through(lab.pool, at(1, 7))
    # A decision opens the group in each month, and another one stops it. Where the rate changed within
    # an interval, the end of the interval before is tried as well.
    assert 12 <= len(runs) <= 18
    longest = timedelta(hours=longest)
    for month in range(1, 7):
        start, end = at(1, month), at(1, month + 1)
        now = end - timedelta(seconds=1)
        found = balance(lab.pool, now)
        assert (found.period.start, found.period.end) == (start, end)
        assert found.spent == used_by_entries(lab.pool, ["a", "b"], start, end)
        assert found.is_exhausted
        assert -found.left <= 5 * longest.total_seconds()
        opened, *tried, stopped = [run for run in runs if start <= run.effective_from < end]
        assert len(tried) <= 1
        assert opened.effective_from - start < timedelta(seconds=1)
        assert {tasks(run)["a"][0] for run in (opened, *tried)} == {2.5}
        assert tasks(stopped)["a"][0] == tasks(stopped)["b"][0] == 0
        assert tasks(stopped)["c"][0] == 10
        before = used_by_entries(lab.pool, ["a", "b"], start, stopped.effective_from - longest)
        assert before < 1000 * 3600 <= found.spent
        if then == Then.STOP:
            assert tasks(stopped)["a"][1] == "limit:group:ml"


def test_what_was_not_used_is_carried_over_once(lab):
    """February has what January left, at most a fifth. March has nothing of January's."""
    budget(lab.pool, lab.ml, "100", carry="0.2", then=Then.NOTIFY)
    a, b = lab.tenant("a"), lab.tenant("b")
    used(lab.pool, a, None, 1, at(3, 1), at(4, 1))
    seal()
    assert balance(lab.pool, at(4, 1)).carried == 0
    found = balance(lab.pool, at(2, 2))
    assert (found.carried, found.available) == (20 * 3600, 120 * 3600)
    # 90 of January are used late, and 110 of February: of its own, nothing is left.
    used(lab.pool, b, None, Decimal("2.75"), at(5, 1), at(6, 1))
    used(lab.pool, a, None, 5, at(5, 2), at(5, 2, hour=22))
    seal()
    assert balance(lab.pool, at(6, 2)).carried == 10 * 3600
    assert balance(lab.pool, at(6, 2)).left == 0
    assert balance(lab.pool, at(6, 3)).carried == 0


def test_a_budget_that_did_not_exist_carries_nothing_over(lab):
    budget(lab.pool, lab.ml, "100", carry="1", now=at(1, 2))
    assert balance(lab.pool, at(2, 2)).carried == 0
    assert balance(lab.pool, at(2, 3)).carried == 100 * 3600


def test_a_stop_that_a_correction_makes_false_ends_with_the_next_decision(lab):
    budget(lab.pool, lab.tenant("a"), "100")
    used(lab.pool, lab.tenant("a"), None, 5, JANUARY, at(2, 1))
    seal()
    assert tasks(recomputed(lab.pool, at(2, 1)))["a"] == (0, "limit:tenant")
    budgets_watch(now=at(2, 1))
    job = RecomputeJob.objects.get(pool=lab.pool)
    assert job.run_after == at(1, 2)
    (entry,) = Entry.objects.filter(pool=lab.pool, kind="usage", tenant=lab.tenant("a"), quantity=5)
    entry_correct(entry=entry, quantity=Decimal(4), reason="four cores", now=at(2, 1, hour=1))
    seal()
    budgets_watch(now=at(2, 1, hour=1))
    runs = decide_through(lab.pool, at(2, 1, hour=2))
    assert [tasks(run)["a"][0] for run in runs] == [2.5]
    assert balance(lab.pool, at(2, 1, hour=2)).left == 4 * 3600


@pytest.mark.parametrize("interval", ["PT1H"], indirect=True)
@pytest.mark.parametrize(("then", "after", "spent"), [(Then.LAST, 4, 4972), (Then.STOP, 0, 4000)])
def test_the_month_of_the_guide(db, tenant, interval, then, after, spent):
    """docs/guides/budgets.md: 16 GPUs, ml may use 4,000 hours of them in March 2027 (743 hours)."""
    chosen = settings(
        timezone="Europe/Berlin", resources=[Resource("gpu", "")], decision_interval=interval
    )
    pool = pool_create(slug="lab", settings=chosen, now=at(1))
    (ml,) = groups_create(
        pool=pool, drafts=[GroupDraft("ml", GroupSettings("ML", None))], now=at(1)
    )
    servers_contribute(pool=pool, drafts=[ServerDraft("node", [Decimal(16)], None)], now=at(1))
    for slug, group, most in (("vision", "ml", None), ("bio", None, 12)):
        admit(pool, tenant(slug), group, at(1))
        work = WorkloadDraft(tenant(slug), "work", [Decimal(1)], tasks=most)
        workloads_submit(pool=pool, drafts=[work], now=at(1))
    terms = BudgetSettings(Decimal(4000), [80, 100], Decimal("0.1"), then)
    budget_create(pool=pool, draft=BudgetDraft(ml, "gpu", terms), now=at(1))
    opened, *_, stopped, again = decide_through(pool, at(2, 4))
    assert (tasks(opened)["vision"][0], tasks(opened)["bio"][0]) == (8, 8)
    exhausted = at(21, hour=20)
    assert (
        exhausted - timedelta(minutes=1) < stopped.effective_from <= exhausted + timedelta(hours=1)
    )
    assert (tasks(stopped)["vision"][0], tasks(stopped)["bio"][0]) == (after, 12)
    assert tasks(again)["vision"][0] == 8
    seal()
    found = balance(pool, at(31, hour=23) + timedelta(minutes=59))
    overshoot = found.spent / 3600 - spent
    assert 0 <= overshoot <= 8
    assert balance(pool, at(2, 4)).carried == 0
    # Crossed exactly at the end of an interval, which is the end of that interval and not of the next.
    assert again.effective_from == at(1, 4)
    (stopped,) = decide_through(pool, at(22, 4))
    assert stopped.effective_from == at(21, 4, hour=20)
    assert balance(pool, at(21, 4, hour=20)).left == 0


def test_use_that_is_reported_late_stops_and_a_correction_opens(db, tenant):
    chosen = settings(
        timezone="Europe/Berlin", resources=[Resource("cpu", "core")], metering="reported"
    )
    pool = pool_create(slug="lab", settings=chosen, now=JANUARY)
    a = tenant("a")
    admit(pool, a, None, JANUARY)
    servers_contribute(pool=pool, drafts=[ServerDraft("s", [Decimal(10)], None)], now=JANUARY)
    workloads_submit(pool=pool, drafts=[WorkloadDraft(a, "work", [Decimal(1)])], now=JANUARY)
    budget(pool, a, "100")
    assert tasks(recomputed(pool, at(2, 1)))["a"][0] == 10
    job = RecomputeJob.objects.get(pool=pool)
    assert job.run_after == at(1, 2)  # what is decided is not what is used
    used(pool, a, None, 50, at(1, 1, hour=3), at(1, 1, hour=5), source="slurm")
    budgets_watch(now=at(3, 1))
    assert RecomputeJob.objects.get(pool=pool).run_after == at(1, 2)  # not sealed yet
    seal()
    budgets_watch(now=at(3, 1))
    (stopped,) = decide_through(pool, at(3, 1, hour=1))
    assert tasks(stopped)["a"] == (0, "limit:tenant")
    # December's use is of another period, and so is what a correction takes from it.
    used(pool, a, None, 50, at(31, 12, year=2026), at(31, 12, hour=2, year=2026), source="slurm")
    seal()
    assert balance(pool, at(3, 1)).spent == 100 * 3600
    (entry,) = Entry.objects.filter(pool=pool, start=at(1, 1, hour=3))
    entry_correct(entry=entry, quantity=Decimal("49.5"), reason="half a core", now=at(4, 1))
    seal()
    budgets_watch(now=at(4, 1))
    (opened,) = decide_through(pool, at(4, 1, hour=1))
    assert tasks(opened)["a"][0] == 10


def test_a_tenant_counts_for_a_group_while_it_belongs_to_it(lab):
    """Equal to the group's report to the last digit, with the totals behind and after them."""
    lab.pool.workloads.all().delete()
    budget(lab.pool, lab.ml, "1000", then=Then.NOTIFY)
    a, c = lab.tenant("a"), lab.tenant("c")
    used(lab.pool, a, None, "1.000000000001", at(1, 1), at(11, 1))
    used(lab.pool, c, None, 1, at(1, 1), at(11, 1))
    used(lab.pool, c, None, 3, at(1, 1), at(11, 1), kind="alone")
    moment = at(4, 1, hour=5) + timedelta(microseconds=123_457)
    admit(lab.pool, a, None, moment)
    admit(lab.pool, c, "ml", at(6, 1))
    admit(lab.pool, c, None, at(8, 1, hour=1))
    admit(lab.pool, a, "ml", at(10, 1))
    expected = used_by_entries(lab.pool, ["a"], at(1, 1), moment)
    expected += used_by_entries(lab.pool, ["c"], at(6, 1), at(8, 1, hour=1))
    expected += used_by_entries(lab.pool, ["a"], at(10, 1), at(11, 1))
    seal()
    assert balance(lab.pool, at(11, 1)).spent == expected
    while totals_advance():
        pass
    assert balance(lab.pool, at(11, 1)).spent == expected


def test_thresholds_of_a_group_are_for_operators_once_per_week(lab):
    budget(lab.pool, lab.ml, "10", then=Then.NOTIFY, per="P7D")
    used(lab.pool, lab.tenant("a"), None, 1, at(5, 1), at(5, 1, hour=6))
    seal()
    assert [budgets_check(pool=lab.pool, now=at(5, 1, hour=7)) for _ in range(2)] == [1, 0]
    (event,) = Event.objects.filter(kind="budget.reached")
    assert (event.pool, event.tenant) == (None, None)
    payload = event.payload
    assert (payload["pool"], payload["group"], payload["month"]) == ("lab", "ml", None)
    assert (payload["from"], payload["to"]) == (at(4, 1).isoformat(), at(11, 1).isoformat())
    used(lab.pool, lab.tenant("a"), None, 1, at(12, 1), at(12, 1, hour=12))
    seal()
    assert budgets_check(pool=lab.pool, now=at(13, 1)) == 2


def test_a_budget_of_one_period_ends_with_it(lab):
    """It is exhausted within, opens at its end, and is no more after it."""
    budget(lab.pool, lab.ml, "10", per="", start=at(2, 1), end=at(5, 1, hour=7))
    found = decide_through(lab.pool, at(1, 2))
    assert len(found) >= 2
    assert tasks(found[-2])["a"] == (0, "limit:group:ml")
    assert found[-1].effective_from - at(5, 1, hour=7) < timedelta(seconds=1)
    assert tasks(found[-1])["a"][0] == 2.5
    job = RecomputeJob.objects.get(pool=lab.pool)
    assert job.wanted == job.settled
    assert balances(pool=lab.pool, budgets=list(budgets_for(lab.pool, None)), now=at(6, 1)) == []


def test_retiring_a_budget_opens_its_node(lab):
    made = budget(lab.pool, lab.ml, "1")
    used(lab.pool, lab.tenant("a"), None, 5, JANUARY, at(2, 1))
    seal()
    assert tasks(recomputed(lab.pool, at(2, 1)))["a"][0] == 0
    budget_retire(budget=made, version=None, now=at(3, 1))
    assert tasks(recomputed(lab.pool, at(3, 1) + timedelta(seconds=1)))["a"][0] == 2.5
    assert Run.objects.first().budgets == []
    budgets_watch(now=at(3, 1))
    job = RecomputeJob.objects.get(pool=lab.pool)
    assert job.wanted == job.settled


def test_a_period_in_which_nothing_is_exhausted_is_followed_by_one_in_which_it_is(lab):
    """Work begins on 25 January, so that 1,000 hours last until February."""
    lab.pool.workloads.all().delete()
    budget(lab.pool, lab.ml, "1000")
    recomputed(lab.pool, JANUARY + timedelta(seconds=1))
    work = WorkloadDraft(lab.tenant("a"), "late", [Decimal(1)])
    workloads_submit(pool=lab.pool, drafts=[work], now=at(28, 1))
    runs = decide_through(lab.pool, at(1, 3))
    assert tasks(runs[0])["a"][0] == 10
    assert tasks(runs[-1])["a"] == (0, "limit:group:ml")
    assert at(5, 2, hour=4) <= runs[-1].effective_from <= at(5, 2, hour=10)


def test_what_is_below_a_group_that_moves_counts_where_the_group_was(lab):
    lab.pool.workloads.all().delete()
    budget(lab.pool, lab.ml, "1000", then=Then.NOTIFY)
    deep, leaf = (GroupDraft(slug, GroupSettings(slug, above)) for slug, above in
                  (("deep", "ml"), ("leaf", "deep")))  # fmt: skip
    (group, _) = groups_create(pool=lab.pool, drafts=[deep, leaf], now=JANUARY)
    c = lab.tenant("c")
    admit(lab.pool, c, "leaf", at(2, 1))
    used(lab.pool, c, None, 2, at(1, 1), at(11, 1))
    moves = [(None, at(4, 1, hour=5)), ("ml", at(6, 1)), (None, at(8, 1)), (None, at(9, 1))]
    for parent, now in moves:
        settings_ = GroupSettings("deep", parent, weight=Decimal(now.day))
        group_update(group=group, settings=settings_, version=None, now=now)
    seal()
    expected = used_by_entries(lab.pool, ["c"], at(2, 1), at(4, 1, hour=5))
    expected += used_by_entries(lab.pool, ["c"], at(6, 1), at(8, 1))
    assert balance(lab.pool, at(11, 1)).spent == expected
    divided = DividedPeriod(lab.ml, Period([at(1, 1), at(11, 1)]))
    assert c.pk in divided.tenants
    assert divided.edges == [
        at(1, 1), at(2, 1), at(4, 1, hour=5), at(6, 1), at(8, 1), at(11, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_rates_that_change_within_intervals_stop_at_the_end_of_the_one_that_crosses(lab, seed):
    """The weight of the group changes at random instants, from 1 to 9 of the 10 cores."""
    random = Random(seed)
    budget(lab.pool, lab.ml, "300")
    now, stopped = JANUARY + timedelta(seconds=1), None
    while stopped is None:
        now += timedelta(minutes=random.randint(1, 900))
        weight = random.choice([Decimal(1) / 9, Decimal(1), Decimal(9)])
        for run in decide_through(lab.pool, now):
            if tasks(run)["a"][0] == 0:
                stopped = run
        settings_ = GroupSettings("ML", None, weight=round(weight, 6))
        group_update(group=lab.ml, settings=settings_, version=None, now=now)
    before = stopped.effective_from - timedelta(hours=6)
    assert used_by_entries(lab.pool, ["a", "b"], JANUARY, before) < 300 * 3600
    assert 0 <= -balance(lab.pool, stopped.effective_from).left <= 9 * 6 * 3600
