"""What a launcher that was killed left behind does not keep the next one from starting."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psycopg
import pytest

from launcher import commands, detached, folders, processes, supervisor
from launcher.accounts import server_account
from launcher.console import StepFailed
from launcher.folders import DataFolder
from launcher.output import LogFiles
from launcher.postgres import OWNER_ROLE, Postgres
from launcher.service import Component
from launcher.supervisor import Supervisor, listen
from tests.unit.launcher.conftest import until
from tests.unit.launcher.test_supervisor import NoServers

HANGS = (
    "import signal, time; signal.signal(signal.SIGQUIT, signal.SIG_IGN);"
    " print(1, flush=True); time.sleep(600)"
)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE_SECONDS", 0.5)


def hanging(folder: Path) -> "subprocess.Popen[bytes]":
    """A process that works in `folder` and takes no notice of SIGQUIT."""
    process = subprocess.Popen(
        [sys.executable, "-c", HANGS], cwd=folder, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_what_hangs_gets_the_next_stronger_signal(tmp_path, impatient, capsys):
    process = hanging(tmp_path)
    threading.Thread(target=process.wait, daemon=True).start()
    processes.end_processes_in(
        tmp_path, step="end it", program="python", signals=[signal.SIGQUIT, signal.SIGKILL]
    )
    assert until(lambda: process.returncode == -signal.SIGKILL)
    said = capsys.readouterr().err
    assert said.index("sending it SIGQUIT") < said.index("sending it SIGKILL")


def test_a_program_that_is_not_ours_is_named_and_left_alone(tmp_path, impatient):
    process = hanging(tmp_path)
    try:
        with pytest.raises(StepFailed) as failure:
            processes.end_processes_in(
                tmp_path, step="end it", program="postgres", signals=[signal.SIGKILL]
            )
        assert str(process.pid) in failure.value.advice
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def postgres():
    folder = folders.fresh("test")
    server = Postgres(folder)
    yield server
    server.stop()
    folder.remove()


def test_a_postgresql_that_hangs_is_ended_and_keeps_what_was_committed(postgres, impatient):
    with psycopg.connect(postgres.url(OWNER_ROLE)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    hung = postgres.process
    for pid in processes.working_in(postgres._data):
        with contextlib.suppress(ProcessLookupError):  # the connection's own is about to end
            os.kill(pid, signal.SIGSTOP)
    threading.Thread(target=hung.wait, daemon=True).start()
    postgres.restart()
    assert postgres.process.pid != hung.pid
    with psycopg.connect(postgres.url(OWNER_ROLE)) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_a_database_that_ends_during_the_migration_is_started_again(
    postgres, monkeypatch, tmp_path, capsys
):
    """The first attempt kills the server, as a crash would; the second finds it up."""
    migration = tmp_path / "manage.py"
    migration.write_text(
        "import os, pathlib, signal, sys\n"
        "killed = pathlib.Path('killed')\n"
        "if not killed.exists():\n"
        "    killed.touch()\n"
        f"    os.kill({postgres.process.pid}, signal.SIGKILL)\n"
        "    sys.exit('django.db.utils.OperationalError: server closed the connection')\n"
    )
    monkeypatch.setattr(commands, "PROJECT", tmp_path)
    servers = NoServers()
    servers.postgres = postgres
    commands.migrate(Path(sys.executable), servers)
    assert "PostgreSQL ended during the migration; starting it again." in capsys.readouterr().err
    assert postgres.process.poll() is None


def test_a_database_that_does_not_answer_is_not_called_a_migration_to_repair(monkeypatch, tmp_path):
    failing = "import sys; sys.exit('django.db.utils.OperationalError: connection failed: refused')"
    (tmp_path / "manage.py").write_text(failing)
    monkeypatch.setattr(commands, "PROJECT", tmp_path)
    with pytest.raises(StepFailed) as failure:
        commands.migrate(Path(sys.executable), NoServers())
    assert "look why the database does not answer" in failure.value.advice


def test_processes_of_a_launcher_that_is_gone_are_ended_and_their_port_is_free(
    tmp_path, monkeypatch
):
    """The recorded process holds the port, as a web process does that was left alone."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    holds = (
        f"import socket, time; s = socket.create_server(('127.0.0.1', {port}));"
        " print(1, flush=True); time.sleep(600)"
    )
    orphan = subprocess.Popen(
        [sys.executable, "-c", holds], stdout=subprocess.PIPE, start_new_session=True
    )
    assert orphan.stdout is not None
    orphan.stdout.readline()
    threading.Thread(target=orphan.wait, daemon=True).start()
    folder = DataFolder(tmp_path / "data", server_account())
    processes.record({"web": orphan.pid}, folder.path / "processes.json")
    component = Component("web", ("-c", "import time; time.sleep(600)"), patience_seconds=1)
    monkeypatch.setattr(supervisor, "components", lambda **_: (component,))
    service = Supervisor(
        *(Path(sys.executable), folder, NoServers(), port, LogFiles(tmp_path)),
        port_patience_seconds=10,
    )
    with service:
        service.start()
        assert until(lambda: orphan.returncode == -signal.SIGKILL)
        assert (folder.path / "processes.json").exists()
    assert not (folder.path / "processes.json").exists()
    folder.release()


def test_a_recorded_number_that_is_another_process_by_now_is_left_alone(tmp_path):
    file = tmp_path / "processes.json"
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd="/",
                             start_new_session=True)  # fmt: skip
    try:
        processes.record({"web": other.pid}, file)
        file.write_text(file.read_text().replace(str(processes._started_at(other.pid)), "1"))
        processes.end_recorded(file, working_in=tmp_path)
        time.sleep(0.2)
        assert other.poll() is None
        assert not file.exists()
    finally:
        other.kill()
        other.wait()


def test_a_port_that_comes_free_is_waited_for(capsys):
    taken = listen(0)
    threading.Timer(0.5, taken.close).start()
    port = taken.getsockname()[1]
    listen(port, patience_seconds=20).close()
    assert f"Port {port} is in use; waiting up to 20 s for it." in capsys.readouterr().err


@pytest.fixture
def lasting(monkeypatch):
    """The data folder of `./dev serve`, where the servers' account can reach it."""
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    home.chmod(0o711)
    monkeypatch.setenv("ALLOCATOR_STATE_DIR", str(home))
    yield home / detached.DATA
    shutil.rmtree(home)


def test_stop_waits_for_the_servers_of_a_killed_service(lasting, capfd):
    server = lasting / "postgres"
    server.mkdir(parents=True)
    process = hanging(server)
    ending = threading.Timer(1, process.kill)
    ending.start()
    threading.Thread(target=process.wait, daemon=True).start()
    assert detached.stop() == 0
    assert until(lambda: process.returncode == -signal.SIGKILL)
    said = "".join(capfd.readouterr())
    assert "The service was killed. Waiting for its servers to end." in said
    assert "Stopped." in said
    assert detached.stop() == 0
    assert "No service runs." in "".join(capfd.readouterr())


def test_stop_names_the_servers_of_a_killed_service_that_do_not_end(lasting, monkeypatch):
    monkeypatch.setattr(detached, "_STOP_SECONDS", 0.3)
    server = lasting / "redis"
    server.mkdir(parents=True)
    process = hanging(server)
    with pytest.raises(StepFailed, match=r"killed service") as failed:
        detached.stop()
    assert str(process.pid) in failed.value.advice
    process.kill()
    process.wait()


def test_stop_leaves_the_servers_of_a_management_command_alone(lasting, capfd):
    with contextlib.closing(DataFolder(lasting, server_account())._lock):
        server = lasting / "postgres"
        server.mkdir()
        process = hanging(server)
        assert detached.stop() == 0
        assert process.poll() is None
        process.kill()
        process.wait()
    assert "No service runs." in "".join(capfd.readouterr())
