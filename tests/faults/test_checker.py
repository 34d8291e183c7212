"""Control of what is checked after a storm of pools that remember: on one whose clock is in our hand."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db import connection
from psycopg.conninfo import make_conninfo

from allocator_service.allocation.long_term.metering import pool_meter_all
from allocator_service.allocation.models import Run, Step
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.publication import TICK
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.pools.policy import Window
from allocator_service.pools.recompute import decision_request
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import pool_create
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests import factories
from tests.faults.long_term import Boundaries, Remembering, boundaries, long_term_wrongs
from tests.faults.whole import metering_wrongs
from tests.integration.conftest import settings, tenant, vector
from tests.superuser import unprotected

__all__ = ["tenant"]

pytestmark = pytest.mark.django_db(transaction=True)

START = datetime(2026, 11, 23, tzinfo=UTC)
SLUG, STEPS, MISSED = "remembering", 12, 5
REMEMBERING = Remembering(2, "sliding", 15)
STEP = timedelta(seconds=REMEMBERING.interval)
CALM, END = START + (MISSED + 1) * STEP, START + STEPS * STEP


class Caller:
    """Asks the API as a client of the running service does."""

    def __init__(self):
        self._client = factories.client("operator")

    def get(self, path):
        return SimpleNamespace(body=self._client.get(path).json())


@pytest.fixture
def decided(tenant):
    """A pool of two tenants, metered at every boundary and decided at all but one."""
    chosen = settings(
        policy=policy_choose("h-mrf", "indivisible", {}),
        decision_interval=f"PT{REMEMBERING.interval}S",
        window=Window("sliding", START, f"PT{REMEMBERING.length}S"),
    )
    pool = pool_create(slug=SLUG, settings=chosen, now=START)
    servers_contribute(pool=pool, drafts=[ServerDraft("node", vector(16, 64))], now=START)
    drafts = [
        WorkloadDraft(tenant("u1"), "memory", vector(1, 4), tasks=3),
        WorkloadDraft(tenant("u2"), "cpu", vector(4, 1), tasks=3),
    ]
    workloads_submit(pool=pool, drafts=drafts, now=START)
    for number in sorted({*range(STEPS)} - {MISSED}):
        at = START + number * STEP
        decision_request(pool, now=at)
        assert recompute_pool(pool_id=pool.pk, clock=lambda at=at: at, early=True) is not None
    pool_meter_all(pool_id=pool.pk, now=END)
    return pool


@pytest.fixture
def changeable(db):
    """Entries of the ledger, runs and steps can be changed and deleted."""
    with unprotected("ledger_entry", "run_step", "run"), connection.cursor() as cursor:
        yield cursor


def database():
    parameters = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port")
    return make_conninfo(**{name: parameters[name] for name in names if parameters.get(name)})


def found(now=END, calm=CALM):
    """What is wrong of the pool, without where, how often and an example."""
    pools = {SLUG: REMEMBERING}
    wrong, _ = long_term_wrongs(Caller(), database(), pools, calm=calm, now=now)
    return {
        each.removeprefix(f"{SLUG}: ").partition(": ")[0].lstrip("0123456789 ") for each in wrong
    }


def test_the_checker_finds_intervals_that_are_missing_double_or_others(decided, changeable):
    """Metering that skipped an interval, did one twice, or windows that remember another."""
    gaps = "timelines have gaps, or intervals twice"
    amounts = "amounts are not what decisions gave for as long as they were in force"
    windows = "amounts in windows are not the ledger's"
    assert found() == set()
    pool_meter_all(pool_id=decided.pk, now=START + timedelta(hours=1))  # uses become entries
    assert (found(), metering_wrongs(database())) == (set(), [])
    changeable.execute(
        "CREATE TEMP TABLE kept AS SELECT * FROM ledger_entry WHERE kind = 'usage'"
        " ORDER BY id LIMIT 1"
    )
    missing = "DELETE FROM ledger_entry e USING kept WHERE e.id = kept.id"
    changeable.execute(missing)
    assert found() == {amounts, windows}
    changeable.execute("INSERT INTO ledger_entry SELECT * FROM kept")
    changeable.execute(
        "UPDATE ledger_entry e SET start = e.start + interval '1 second', amount = e.amount - e.quantity"
        " FROM kept WHERE e.id = kept.id"
    )
    assert found() == {gaps, amounts, windows}
    changeable.execute(missing)
    changeable.execute("INSERT INTO ledger_entry SELECT * FROM kept")
    assert found() == set()
    changeable.execute(
        "UPDATE ledger_entry e SET run_id = run.id FROM run, kept"
        " WHERE e.id = kept.id AND run.effective_from > kept.start"
    )
    (wrong,) = metering_wrongs(database())
    assert wrong == "1 entries name a decision that was not in force when they start"
    changeable.execute(missing)
    changeable.execute("INSERT INTO ledger_entry SELECT * FROM kept")
    changeable.execute("UPDATE kept SET id = gen_random_uuid()")
    changeable.execute("INSERT INTO ledger_entry SELECT * FROM kept")
    assert found() == {gaps, "intervals of a timeline overlap", amounts, windows}
    (wrong,) = metering_wrongs(database())
    assert wrong.endswith("metered amounts are not their decision's")
    changeable.execute(
        'UPDATE ledger_entry e SET "end" = e."end" + interval \'2 hours\','
        " amount = e.amount + 7200 * e.quantity FROM kept WHERE e.id = kept.id"
    )
    assert any("time without a decision" in wrong for wrong in metering_wrongs(database()))
    changeable.execute(missing)
    assert found() == set()
    changeable.execute("DROP TABLE kept")


def test_the_checker_finds_windows_that_remember_another_interval(decided, changeable):
    changeable.execute(
        "UPDATE run_step SET since = since - interval '1 second'"
        " WHERE begin = (SELECT max(begin) FROM run_step)"
    )
    assert "windows reach elsewhere" in found()


def test_the_checker_finds_boundaries_that_are_decided_twice(decided, changeable):
    changeable.execute(
        "UPDATE run_step SET begin = begin - interval '2 seconds'"
        " WHERE begin = (SELECT max(begin) FROM run_step)"
    )
    twice = "a boundary is decided twice by a clock that was not set back"
    assert twice in found()
    changeable.execute(
        "UPDATE run SET started_at = started_at - interval '4 seconds' WHERE id ="
        " (SELECT run_id FROM run_step JOIN run ON id = run_id ORDER BY effective_from DESC LIMIT 1)"
    )
    assert twice not in found()


def test_the_checker_finds_boundaries_that_nobody_decided(decided):
    begins = list(Step.objects.order_by("begin").values_list("begin", flat=True))
    assert boundaries(begins, REMEMBERING) == Boundaries(passed=STEPS, missed=1)
    assert found(now=END + STEP) == set()
    assert found(now=END + 2 * STEP) == {"its boundaries pass undecided"}
    assert found(calm=START) == {"a boundary was not decided though all was calm"}


def test_a_run_whose_worker_died_before_the_clock_was_set_back_decides_no_boundary_twice(
    decided, changeable
):
    """It keeps the instant at which it began, and ends a microsecond after the decision before it."""
    twice = "a boundary is decided twice by a clock that was not set back"
    changeable.execute(
        "UPDATE run_step SET begin = begin - interval '2 seconds'"
        " WHERE begin = (SELECT max(begin) FROM run_step)"
    )
    last_two = Run.objects.filter(status="succeeded").order_by("-effective_from")[:2]
    last, before = last_two
    assert twice in found()
    changeable.execute(
        "UPDATE run SET finished_at = %s WHERE id = %s", [before.finished_at + TICK, last.pk]
    )
    assert twice not in found()
