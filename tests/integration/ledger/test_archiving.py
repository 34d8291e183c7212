"""Refusals, waits and kills of the command that archives months."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import InternalError, connection

from allocator_service.billing.models import Closing, PricePlan
from allocator_service.billing.rating.late import reason_to_keep
from allocator_service.core.errors import Conflict, Unacceptable, Unavailable
from allocator_service.core.snapshots import BEGIN_SNAPSHOT, one_snapshot
from allocator_service.ledger.archive import archiving
from allocator_service.ledger.archive.archiving import archive_restore
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.ledger.models import (
    Archive,
    Entry,
    Seal,
)
from launcher.folders import PROJECT
from tests.examples import thorough
from tests.integration.conftest import another_session
from tests.ledgers import (
    archive,
    at,
    everything,
    files,
    verified,
)
from tests.superuser import as_superuser

pytestmark = pytest.mark.django_db(transaction=True)


def test_months_that_are_not_closed_stay_and_the_reason_is_stated(ledger):
    ledger.fill(months=2)
    reasons = archive(at(3, 10), obstacle=lambda pool, *_: f"pool {pool}")
    assert reasons == {"2026-01": "pool lab", "2026-02": "pool lab"}
    entries_append([ledger.row(1)])
    assert archive(at(2)) == {"2026-01": "entries of it wait for their seal"}
    entries_seal_all(now=at(6))
    assert "not in the totals yet" in archive(at(2))["2026-01"]
    ledger.seal()
    entries_append([{**ledger.row(1), "end": at(5)}])
    ledger.seal()
    assert archive() == {"2026-01": "an entry of it lasts until 2026-05-01 00:00", "2026-02": ""}
    assert Archive.objects.count() == 1
    with pytest.raises(Unacceptable, match="not in the future"):
        archive(at(7))


def test_one_command_at_a_time(ledger):
    ledger.fill(months=2)
    with archiving._alone(), pytest.raises(Conflict, match="Another process"):
        archive()
    assert files(ledger) == []


def test_readers_are_waited_for_and_a_reader_that_stays_is_stated(ledger, monkeypatch):
    ledger.fill(months=2)
    monkeypatch.setattr(archiving, "_ATTEMPTS", 2)
    monkeypatch.setattr(archiving, "_PAUSE_SECONDS", 0.01)
    count = Entry.objects.count()
    with another_session() as reader:
        reader.execute("SELECT count(*) FROM ledger_entry")
        with pytest.raises(Conflict, match="was read all the time"):
            archive()
        assert Entry.objects.count() == count
        reader.rollback()
    # The file of the first attempt is replaced by the same one.
    assert archive() == {"2026-01": "", "2026-02": ""}
    assert files(ledger) == sorted(each.name for each in Archive.objects.all())


def test_usage_is_posted_and_sealed_while_months_are_archived_and_restored(ledger):
    ledger.fill(months=2)
    before, ends = Entry.objects.count(), threading.Event()

    def post():
        posted = 0
        try:
            while not ends.is_set():
                ledger.append(1, 2, 3)
                posted += 3
        finally:
            connection.close()
        return posted

    with ThreadPoolExecutor(1) as executor:
        posting = executor.submit(post)
        try:
            for _ in range(4):
                archive()
            for stored in Archive.objects.all()[:2]:
                archive_restore(name=stored.name)
        finally:
            ends.set()
        posted = before + posting.result(60)
    assert posted > before
    archive()
    assert sum(each.entries for each in Archive.objects.all()) + Entry.objects.count() == posted
    assert Seal.objects.count() == posted
    assert all(holds for _, holds, _ in verified())


def test_entries_of_months_that_are_not_closed_or_not_billed_stay(ledger, world):
    ledger.fill(months=2)
    last = Seal.objects.order_by("-sequence").first().sequence
    assert archive(obstacle=reason_to_keep) == {"2026-01": "", "2026-02": ""}
    for stored in Archive.objects.all():
        archive_restore(name=stored.name)
    plan = PricePlan.objects.create(pool=world.lab, name="plan", start=at(1), created_at=at(1))
    assert reason_to_keep(world.lab, at(2), last) == ""
    PricePlan.objects.filter(pk=plan.pk).update(state="published", number=1, published_at=at(1))
    reasons = archive(obstacle=reason_to_keep)
    assert set(reasons.values()) == {"pool lab has price plans and no closed month"}
    closed = {"pool": world.lab, "closed_at": at(3), "document": b"{}"}
    Closing.objects.create(**closed, month=at(1).date(), start=at(1), end=at(2), sequence=last)
    reasons = archive(obstacle=reason_to_keep)
    assert reasons["2026-02"] == "the months of pool lab are closed only through 2026-01"
    Closing.objects.create(**closed, month=at(2).date(), start=at(2), end=at(4), sequence=last - 1)
    late = "late entries of pool lab are in no closed month yet"
    assert reason_to_keep(world.lab, at(3), last) == late
    assert reason_to_keep(world.lab, at(3), last - 1) == ""


def test_a_snapshot_from_before_keeps_the_month_until_it_ends(ledger, monkeypatch):
    """Archiving waits for older snapshots, for which a dropped table would be gone, too."""
    ledger.fill(months=2)
    count = Entry.objects.count()
    done = []
    with another_session() as reader:
        reader.execute(BEGIN_SNAPSHOT)
        thread = threading.Thread(target=lambda: (done.append(archive()), connection.close()))
        thread.start()
        thread.join(3)
        assert thread.is_alive()
        assert reader.execute("SELECT count(*) FROM ledger_entry").fetchone() == (count,)
        reader.rollback()
        thread.join(60)
    assert done == [{"2026-01": "", "2026-02": ""}]


KILLED = """
import os, signal, sys
import django
django.setup()
from datetime import UTC, datetime
from pathlib import Path
from allocator_service.ledger.archive import archiving, writing
from allocator_service.ledger.models import ArchivedPool
owner, name, when = sys.argv[1:4]
target = globals()[owner]
real = getattr(target, name)
def killed(*args, **kwargs):
    if when == "after":
        real(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(target, name, killed)
if sys.argv[4] == "restore":
    archiving.archive_restore(name=sys.argv[5])
february, june = (datetime(2026, month, 1, tzinfo=UTC) for month in (2, 6))
list(archiving.months_archive(before=february, now=june, obstacle=lambda *_: ""))
"""
STEPS = [
    ("archiving", "month_content", "after"),
    ("writing", "file_write", "after"),
    ("writing", "_part_compare", "after"),
    ("writing", "file_digest", "after"),
    ("Path", "replace", "before"),
    ("Path", "replace", "after"),
    ("archiving", "_partition_drop", "before"),
    ("ArchivedPool", "__init__", "before"),
    ("archiving", "_partition_exchange", "after"),
    ("archiving", "_partition_drop", "after"),
]


def in_process(ledger, program, *arguments):
    """Run a program of Python against the tests' database and the directory of archives."""
    ours = connection.get_connection_params()
    host, port = ours.get("host", ""), ours.get("port", "")
    url = f"postgresql://{ours['user']}@/{ours['dbname']}?host={host}&port={port}"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "DATABASE_URL": url, "LEDGER_ARCHIVE_DIR": str(ledger.directory)},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )


def run_killed(ledger, *arguments):
    done = in_process(ledger, KILLED, *arguments)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_after_a_kill_between_any_two_steps_the_command_is_repeated(ledger, billing):
    ledger.fill(months=2)
    before = everything(ledger, billing)
    for step in STEPS[:: 1 if thorough() else 3]:
        run_killed(ledger, *step, "archive")
        assert everything(ledger, billing) == before, step
    assert set(archive(at(2))) <= {"2026-01"}
    assert [each.month.month for each in Archive.objects.all()] == [1]
    assert Entry.objects.filter(start__lt=at(2)).count() == 0
    assert everything(ledger, billing) == before
    (stored,) = Archive.objects.all()
    assert files(ledger) == [stored.name]
    for name in ("rows_load", "_readers_lock_out"):
        step = ("archiving", name, "after")
        run_killed(ledger, *step, "restore", stored.name)
        assert everything(ledger, billing) == before, step
    archive_restore(name=stored.name)
    assert everything(ledger, billing) == before


def test_the_command_states_what_came_of_each_month(ledger, capsys, monkeypatch):
    ledger.fill(months=2)
    call_command("ledger_archive", before="2026-02-01")
    (stored,) = Archive.objects.all()
    expected = f"2026-01  {stored.entries:,} entries, {stored.size:,} bytes: {stored.name}\n"
    assert capsys.readouterr().out == expected
    call_command("ledger_archive", restore=stored.name)
    assert (
        capsys.readouterr().out
        == f"{stored.name}: {stored.entries:,} entries are in the database\n"
    )
    for arguments, words in (
        ({"before": "January"}, "write a date"),
        ({"before": "2999-01-01"}, "not in the future"),
        ({"restore": "../secret"}, "No archive of the ledger is named"),
    ):
        with pytest.raises(CommandError, match=words):
            call_command("ledger_archive", **arguments)


def test_without_a_directory_the_command_states_the_setting(ledger, settings):
    ledger.fill(months=1)
    unusable = {"": "LEDGER_ARCHIVE_DIR is not set", "/nowhere": "/nowhere is not a directory"}
    for folder, words in unusable.items():
        settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, ledger_archive_dir=folder)
        with pytest.raises(CommandError, match=words):
            call_command("ledger_archive", before="2026-02-01")
    assert Archive.objects.count() == 0


def test_the_application_may_neither_record_nor_forget_an_archive(ledger):
    ledger.fill(months=1)
    archive(at(2))
    for statement in ("DELETE FROM ledger_archived_pool", "UPDATE ledger_archive SET size = 1"):
        with another_session() as session:
            session.execute("SET ROLE allocator")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(statement)


def test_a_long_reader_is_waited_for_without_a_queue_behind_it(ledger, monkeypatch):
    """Readers and writers wait during each attempt for the exclusive lock, of which one is enough."""
    ledger.fill(months=1)
    monkeypatch.setattr(archiving, "_ATTEMPTS", 5)
    monkeypatch.setattr(archiving, "_PAUSE_SECONDS", 0.01)
    attempts, exchange = [], archiving._partition_exchange

    def attempted(*arguments):
        attempts.append(arguments)
        return exchange(*arguments)

    monkeypatch.setattr(archiving, "_partition_exchange", attempted)
    with another_session() as reader:
        reader.execute(BEGIN_SNAPSHOT)
        with pytest.raises(Conflict, match="was read all the time"):
            archive(at(2))
        assert len(attempts) == 1
        reader.rollback()
    assert archive(at(2)) == {"2026-01": ""}


def test_pools_can_be_changed_while_a_month_is_restored(ledger, monkeypatch):
    """Foreign keys of a new partition lock the tables that they refer to."""
    ledger.fill(months=1)
    archive(at(2))
    (stored,) = Archive.objects.all()
    load = archiving.rows_load

    def loaded(*arguments):
        with another_session() as session:
            session.execute("SET lock_timeout = '200ms'")
            for table in ("pool", "tenant", "workload"):
                session.execute(f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
        return load(*arguments)

    monkeypatch.setattr(archiving, "rows_load", loaded)
    assert archive_restore(name=stored.name).entries == Entry.objects.count()


FULL = """
import resource, sys
import django
django.setup()
from datetime import UTC, datetime
from allocator_service.core.errors import Unavailable
from allocator_service.ledger.archive.archiving import months_archive
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
february, june = (datetime(2026, month, 1, tzinfo=UTC) for month in (2, 6))
try:
    list(months_archive(before=february, now=june, obstacle=lambda *_: ""))
except Unavailable as error:
    sys.exit(error.detail)
"""


@pytest.mark.parametrize("room", [0, 1_000, 20_000])
def test_a_directory_without_room_loses_nothing_and_keeps_no_part_of_a_file(ledger, billing, room):
    ledger.fill(months=2, entries=400)
    count = Entry.objects.count()
    done = in_process(ledger, FULL, str(room))
    assert done.returncode == 1, done.stderr
    assert "The file of 2026-01 cannot be written to" in done.stderr
    assert "File too large" in done.stderr
    assert files(ledger) == []
    assert (Entry.objects.count(), Archive.objects.count()) == (count, 0)
    assert archive(at(2)) == {"2026-01": ""}


def test_a_directory_that_cannot_be_written_to_is_stated_before_anything_is_read(ledger, settings):
    ledger.fill(months=1)
    file = ledger.directory / "file"
    file.write_text("")
    file.chmod(0o777)
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, ledger_archive_dir=str(file))
    with pytest.raises(Unavailable, match="not a directory that this process can write to"):
        archive(at(2))


def test_a_role_that_does_not_own_the_ledger_is_refused_before_a_file_is_written(ledger):
    ledger.fill(months=1)
    with connection.cursor() as cursor:
        cursor.execute("SET ROLE allocator")
        try:
            with pytest.raises(Conflict, match="MIGRATION_DATABASE_URL") as refused:
                archive(at(2))
            with pytest.raises(Conflict, match="MIGRATION_DATABASE_URL"):
                archive_restore(name="any")
        finally:
            cursor.execute("RESET ROLE")
    assert refused.value.code == "ledger.archive_owner"
    assert files(ledger) == []


def test_an_entry_without_its_block_is_not_dropped_with_its_month(ledger):
    """Export and file have the same digest because neither has it."""
    ledger.fill(months=1)
    as_superuser(
        "UPDATE ledger_seal SET block = 100000 + block"
        " WHERE sequence = (SELECT min(sequence) + 1 FROM ledger_seal)"
    )
    count = Entry.objects.count()
    with pytest.raises(Conflict, match="differs from the database"):
        archive(at(2))
    assert (Entry.objects.count(), files(ledger)) == (count, [])


def test_two_commands_at_once_archive_each_month_once(ledger, billing):
    ledger.fill(months=2)
    before = everything(ledger, billing)
    start = threading.Barrier(2)

    def command():
        try:
            start.wait(30)
            return archive()
        except Conflict as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as executor:
        outcomes = [executor.submit(command) for _ in range(2)]
        found = [outcome.result(60) for outcome in outcomes]
    assert {"2026-01": "", "2026-02": ""} in found
    # The other one was refused, or came when nothing was left.
    assert all(
        each in ({"2026-01": "", "2026-02": ""}, {}, "ledger.archive_busy") for each in found
    )
    assert [each.month.month for each in Archive.objects.all()] == [1, 2]
    assert everything(ledger, billing) == before


def test_a_clock_that_was_set_back_archives_no_month_that_it_takes_for_the_present(ledger):
    ledger.fill(months=2)
    assert archive(at(2), now=at(2, 3)) == {"2026-01": ""}
    with pytest.raises(Unacceptable, match="not in the future"):
        archive(at(3), now=at(1, 20))
    # Usage of an archived month that the clock takes for the present is late usage.
    ledger.append(1, 1)
    assert archive(at(2), now=at(2, 1)) == {"2026-01": ""}
    assert [each.month.month for each in Archive.objects.all()] == [1, 1]
    assert all(holds for _, holds, _ in verified())


def test_a_snapshot_cannot_write_where_nothing_is_archived(ledger):
    ledger.fill(months=1)
    with pytest.raises(InternalError, match="read-only transaction"), one_snapshot():
        ledger.append(1)
    archive(at(2))
    with one_snapshot(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE of_a_reader (number integer)")


def test_a_month_stays_if_its_file_is_removed_before_the_partition(ledger, monkeypatch):
    ledger.fill(months=1)
    count, drop = Entry.objects.count(), archiving._partition_drop

    def dropped(content, written, *, now):
        written.path.unlink()
        return drop(content, written, now=now)

    monkeypatch.setattr(archiving, "_partition_drop", dropped)
    with pytest.raises(Unavailable, match="2026-01 stays in the database"):
        archive(at(2))
    assert (Entry.objects.count(), Archive.objects.count()) == (count, 0)
