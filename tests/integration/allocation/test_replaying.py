"""A day of decisions in seconds: `manage.py replay`."""

from datetime import timedelta
from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from allocator_service.allocation.models import Run
from allocator_service.allocation.policies import policy_choose
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.models import Entry, TotalsCursor
from allocator_service.pools.policy import Window
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, settings, vector

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)


@pytest.fixture
def backlogged(tenant):
    """Policies §4: a pool of 10 and 10, two tenants with tasks of 3 and 3, always backlogged."""
    choice = policy_choose("h-mrf", None, {"placement": "pool"})
    chosen = settings(policy=choice, window=Window("unbounded", NOON), decision_interval="PT1H")
    pool = pool_create(slug="days", settings=chosen, now=NOON)
    servers_contribute(pool=pool, drafts=[ServerDraft("big", vector(10, 10))], now=NOON)
    drafts = [WorkloadDraft(tenant(name), "work", vector(3, 3), tasks=9) for name in ("a", "b")]
    workloads_submit(pool=pool, drafts=drafts, now=NOON)
    return pool


def replay(*arguments):
    out = StringIO()
    call_command("replay", "days", *arguments, stdout=out)
    return out.getvalue().splitlines()


def test_a_day_is_decided_and_metered_hour_by_hour(backlogged):
    lines = replay("--from", "2026-11-20T12:00:00Z", "--to", "2026-11-21T12:00:00Z")
    assert len(lines) == 24
    assert lines[:3] == [
        "2026-11-20T12:00:00Z  a 2 (β -)  b 1 (β -)",
        "2026-11-20T13:00:00Z  a 1 (β 2.0000)  b 2 (β 1.0000)",
        "2026-11-20T14:00:00Z  a 2 (β 1.5000)  b 1 (β 1.5000)",
    ]
    used = Entry.objects.filter(kind="usage", resource="cpu", tenant__slug="a")
    assert sum(used.values_list("amount", flat=True)) == Decimal(36 * 3 * 3600)
    assert TotalsCursor.objects.get().through == Entry.objects.count()
    assert [check for check in ledger_verify(now=NOON + 24 * HOUR) if not check.holds] == []


@pytest.mark.parametrize(
    ("since", "until", "sentence"),
    [
        ("2026-13-20T12:00:00Z", "2026-11-21T12:00:00Z", "--from: write a time"),
        ("2026-11-20T12:00:00Z", "9999-12-31T23:59:00-05:00", "--to: write a time"),
        ("0001-01-01T00:00:00+05:00", "2026-11-21T12:00:00Z", "--from: write a time"),
        ("0001-01-01T00:00:00Z", "2026-11-21T12:00:00Z", "`--from` must be between 2000 and 2200."),
        ("2026-11-20T12:00:00Z", "9999-12-31T23:59:00Z", "`--to` must be between 2000 and 2200."),
    ],
)
def test_times_that_cannot_be_replayed_are_refused(backlogged, since, until, sentence):
    with pytest.raises(CommandError, match=sentence):
        replay("--from", since, "--to", until)
    assert not Run.objects.exists()


def test_it_goes_on_where_it_ended_and_in_other_steps(backlogged):
    replay("--from", "2026-11-20T12:00:00Z", "--to", "2026-11-20T14:00:00Z")
    lines = replay(
        "--from", "2026-11-20T15:00:00+01:00", "--to", "2026-11-20T18:00:00Z", "--step", "PT2H"
    )
    assert [line.split("  ")[0] for line in lines] == [
        "2026-11-20T14:00:00Z",
        "2026-11-20T16:00:00Z",
    ]
    assert lines[1].endswith("a 1 (β 1.7500)  b 2 (β 1.2500)")


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("--from", "2026-11-20T12:00:00Z", "--to", "2026-11-20T12:00:00Z"), "not after"),
        (("--from", "2026-11-20T12:00:00", "--to", "2026-11-21T12:00:00Z"), "offset"),
        (("--from", "2026-11-20T12:00:00Z", "--to", "tomorrow"), "offset"),
        (("--from", "2026-11-20T13:00:00Z", "--to", "2026-11-21T12:00:00Z"), "has decisions"),
        (("--from", "2026-11-22T13:00:00Z", "--to", "2026-11-23T12:00:00Z", "--step", "1h"), "ISO"),
    ],
)
def test_what_cannot_be_driven_is_refused_and_changes_nothing(backlogged, arguments, refusal):
    replay("--from", "2026-11-20T12:00:00Z", "--to", "2026-11-20T14:00:00Z")
    before = Run.objects.count(), Entry.objects.count()
    with pytest.raises(CommandError, match=refusal) as refused:
        replay(*arguments)
    assert refused.value.returncode == 2
    assert (Run.objects.count(), Entry.objects.count()) == before
