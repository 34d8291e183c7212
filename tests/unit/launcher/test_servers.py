"""Real servers, started and stopped as root and as a normal user; nothing outlives its holder."""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis
from kombu.connection import Connection

from launcher import processes
from tests.unit.launcher.conftest import Copy, until


def test_servers_answer_on_private_sockets_and_are_gone_when_let_go(copy: Copy):
    held = copy.hold()
    sockets = Path(held.places["sockets"])
    assert held.query("select current_user, current_setting('listen_addresses')") == "allocator|"
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert {path.name for path in sockets.iterdir()} >= {".s.PGSQL.5432", "redis.sock"}
    running = held.ids()
    assert running
    for pid in running:
        with contextlib.suppress(FileNotFoundError):  # PostgreSQL's workers come and go
            assert Path(f"/proc/{pid}").stat().st_uid != 0
    held.let_go()
    assert held.ids() == set()
    assert not held.data.exists()
    assert not sockets.exists()


def test_kill_9_of_the_launcher_leaves_no_process(copy: Copy):
    held = copy.hold()
    assert len(held.ids()) > 2
    held.kill()
    assert until(lambda: not held.ids())


def test_what_a_killed_launcher_left_is_removed_by_the_next_one(copy: Copy):
    killed = copy.hold()
    killed.kill()
    assert until(lambda: not killed.ids())
    assert killed.data.exists()
    following = copy.hold()
    assert not killed.data.exists()
    assert not Path(killed.places["sockets"]).exists()
    following.let_go()


def test_two_side_by_side_do_not_meet(copy: Copy):
    one, other = copy.hold(), copy.hold()
    one.query("create table theirs ()", role="allocator_owner")
    assert "does not exist" in other.query("table theirs")
    one.let_go()
    assert other.query("select 1") == "1"
    other.let_go()


def test_a_second_holder_of_lasting_data_is_refused(copies):
    copy = copies()
    held = copy.hold("persistent")
    second = copy.run("from launcher import folders; folders.persistent('test')")
    _, errors = second.communicate()
    assert second.returncode == 1
    assert "InUse" in errors
    held.let_go()


def test_lasting_data_survives_a_kill_and_a_process_id_that_is_now_another_process(copies):
    copy = copies()
    held = copy.hold("persistent")
    held.query("create table kept (n int); insert into kept values (7)", role="allocator_owner")
    held.query("checkpoint", role="postgres")
    held.kill()
    assert until(lambda: not held.ids())
    (held.data / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n{held.data}\n")
    again = copy.hold("persistent")
    assert again.query("table kept") == "7"
    again.let_go()


def test_a_cluster_that_was_left_half_made_is_made_again(copies):
    copy = copies()
    half_made = copy.folder / ".data" / "test" / "postgres"
    half_made.mkdir(parents=True)
    for path in (half_made, half_made.parent, half_made.parent.parent):
        path.chmod(0o711)
        copy.account.own(path)
    (half_made / "PG_VERSION").write_text("18\n")
    held = copy.hold("persistent")
    assert held.query("select 1") == "1"
    held.let_go()


def test_a_long_path_with_capitals_and_spaces_is_no_obstacle(copies):
    copy = copies()
    copy.environment["ALLOCATOR_STATE_DIR"] = f"{copy.folder}/{'A long Path ' * 10}/data"
    held = copy.hold()
    assert held.query("select 1") == "1"
    assert len(held.places["sockets"]) < 60
    held.let_go()


def test_servers_for_root_run_where_their_account_cannot_read_the_environment(copies):
    copy = copies("root")
    (copy.folder / ".venv").chmod(0o700)
    held = copy.hold()
    command = Path(f"/proc/{min(held.ids())}/cmdline").read_bytes().split(b"\0")[0]
    assert os.fsdecode(command).startswith(f"{held.data}/programs/")
    assert held.query("select 1") == "1"
    held.let_go()


def test_root_in_a_closed_folder_keeps_it_closed_and_its_data_elsewhere(copies):
    copy = copies("root")
    copy.folder.chmod(0o700)
    held = copy.hold()
    assert held.data.parts[:4] == ("/", "var", "lib", "allocator-service")
    assert held.query("select 1") == "1"
    held.let_go()
    assert stat.S_IMODE(copy.folder.stat().st_mode) == 0o700
    shutil.rmtree(held.data.parents[1])
    with contextlib.suppress(OSError):  # somebody's lasting data may be beside it
        held.data.parents[2].rmdir()


def test_a_chosen_folder_that_the_servers_account_cannot_reach_is_refused(copies):
    copy = copies("root")
    closed = copy.folder / "closed"
    closed.mkdir(mode=0o700)
    copy.environment["ALLOCATOR_STATE_DIR"] = f"{closed}/data"
    process = copy.run("from launcher import folders; folders.persistent('test')")
    _, errors = process.communicate()
    assert f"This step failed: use the folder {closed}/data for data" in errors


def test_the_application_role_uses_the_owners_tables_and_owns_nothing(copies):
    held = copies().hold()
    assert "permission denied" in held.query("create table mine ()")
    held.query("create table theirs (id serial, n int)", role="allocator_owner")
    for sql in ("insert into theirs (n) values (1)", "update theirs set n = 2"):
        assert held.query(sql) == ""
    assert held.query("select n from theirs") == "2"
    assert held.query("delete from theirs") == ""
    assert "must be owner" in held.query("drop table theirs")
    held.query("create database test_one", role="allocator_owner")
    held.query("create table theirs (n int)", role="allocator_owner", database="test_one")
    assert held.query("table theirs", database="test_one") == ""
    gist = "select count(*) from pg_extension where extname = 'btree_gist'"
    assert held.query(gist, database="test_one") == "1"
    held.let_go()


def test_the_urls_are_what_psycopg_celery_and_redis_understand(copies):
    held = copies().hold()
    with psycopg.connect(held.places["DATABASE_URL"]) as connection:
        assert connection.info.user == "allocator"
    with psycopg.connect(held.places["MIGRATION_DATABASE_URL"]) as connection:
        assert connection.info.user == "allocator_owner"
    url = held.places["REDIS_URL"]
    with Connection(url) as broker:
        queue = broker.SimpleQueue("greetings")
        queue.put("hello")
        assert queue.get(timeout=2).payload == "hello"
    path = url.removeprefix("redis+socket://").removesuffix("?virtual_host=0")
    client = redis.from_url(f"unix://{path}?db=0")
    assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    client.close()
    held.let_go()


def test_servers_that_the_environment_names_are_not_started(copies):
    copy = copies()
    copy.environment = {"DATABASE_URL": "postgresql://a@b/c", "REDIS_URL": "redis://d/0"}
    script = """
from launcher import folders
from launcher.servers import Servers
servers = Servers(folders.fresh("test"), tests=True)
print(servers.postgres, servers.redis, *sorted(servers.environment.values()))
"""
    output, errors = copy.run(script).communicate()
    assert output == "None None postgresql://a@b/c postgresql://a@b/c redis://d/0\n", errors


def test_a_server_that_cannot_start_says_which_step_failed_and_what_its_log_said(copies):
    copy = copies()
    (copy.folder / ".data" / "test").mkdir(parents=True)
    held = copy.hold("persistent")
    held.let_go()
    (held.data / "postgres" / "postgresql.conf").write_text("no_such_setting = 1\n")
    process = copy.run(
        "from launcher import folders\nfrom launcher.servers import Servers\n"
        "Servers(folders.persistent('test'))"
    )
    _, errors = process.communicate()
    assert "This step failed: start PostgreSQL" in errors
    assert "no_such_setting" in errors


@pytest.mark.parametrize("chosen", ["99", "elsewhere"])
def test_a_source_that_does_not_exist_is_named(copies, chosen):
    copy = copies()
    copy.environment["ALLOCATOR_POSTGRES"] = chosen
    process = copy.run(
        "from launcher import folders\nfrom launcher.servers import Servers\n"
        "Servers(folders.fresh('test'))"
    )
    _, errors = process.communicate()
    assert "This step failed" in errors
    assert "ALLOCATOR_POSTGRES" in errors


def test_a_child_gets_its_orphan_signal_even_when_it_has_another_account(tmp_path):
    script = """
import sys
from launcher import processes
from launcher.accounts import server_account
child = processes.start(["sleep", "60"], account=server_account())
print(child.pid, flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert until(lambda: not Path(f"/proc/{child}").exists())


def test_stop_kills_what_does_not_listen(tmp_path):
    deaf = ["/bin/sh", "-c", "trap '' TERM; touch ready; while :; do sleep 0.1; done"]
    process = processes.start(deaf, cwd=tmp_path)
    processes.wait_until_ready((tmp_path / "ready").exists, process=process, step="start it")
    assert processes.stop(process, patience_seconds=0.2) == -signal.SIGKILL
