"""The service's processes are started, restarted, given up and stopped in order."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from launcher import supervisor
from launcher.accounts import server_account
from launcher.console import StepFailed
from launcher.folders import DataFolder
from launcher.output import LogFiles, Terminal
from launcher.serve import counts_of
from launcher.servers import Servers
from launcher.service import Component, components
from launcher.supervisor import Supervisor, listen
from tests.unit.launcher.conftest import until

STAYS = """
import pathlib, signal, sys, time
def end(*_):
    with open("order", "a") as order:
        order.write(sys.argv[1] + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("hello from", sys.argv[1], flush=True)
pathlib.Path(sys.argv[1] + ".up").touch()
while True:
    time.sleep(0.05)
"""
SERVES = """
import http.server, socket, sys
listener = socket.socket(fileno=int(sys.argv[1]))
server = http.server.HTTPServer(("", 0), http.server.SimpleHTTPRequestHandler, False)
server.socket = listener
server.serve_forever()
"""


class NoServers(Servers):
    """Stands for servers that the environment names: nothing to watch."""

    def __init__(self) -> None:
        self.postgres = None
        self.redis = None

    def environ(self, **more):
        return {**os.environ, **more}


@pytest.fixture
def supervise(tmp_path, monkeypatch):
    """Makes a supervisor of the given components, which work in `tmp_path`."""
    folder = DataFolder(tmp_path / "data", server_account())
    monkeypatch.setattr(supervisor, "PROJECT", tmp_path)
    monkeypatch.setattr(supervisor, "_RESTART_SECONDS", 0.01)

    def make(*components, output=None):
        monkeypatch.setattr(supervisor, "components", lambda **_: components)
        output = output or LogFiles(tmp_path)
        return Supervisor(Path(sys.executable), folder, NoServers(), 0, output)

    yield make
    folder.release()


def stays(name: str) -> Component:
    return Component(name, ("-c", STAYS, name), patience_seconds=5)


def test_several_of_one_process_have_labels_and_the_workers_stop_last(supervise, tmp_path):
    second = replace(stays("worker"), command=("-c", STAYS, "worker-2"), number=2)
    with supervise(stays("web"), stays("worker"), second) as service:
        service.start()
        assert up(tmp_path, "web", "worker", "worker-2")
        recorded = json.loads((tmp_path / "data" / "processes.json").read_text())
        assert set(recorded) == {"web", "worker", "worker-2"}
    first, *others = (tmp_path / "order").read_text().split()
    assert (first, sorted(others)) == ("web", ["worker", "worker-2"])


def test_serve_is_told_how_many_there_are():
    assert counts_of([]) == {}
    assert counts_of(["--processes", "web=2,worker=16"]) == {"web": 2, "worker": 16}
    for wrong in ("web", "web=0", "web=17", "web=2,web=3", "cache=2", "web=-1", "", "web=2,"):
        assert counts_of(["--processes", wrong]) is None, wrong
    for wrong in (
        ["web=2"],
        ["--processes"],
        ["--process", "web=2"],
        ["--processes", "web=2", "x"],
    ):
        assert counts_of(wrong) is None, wrong


def test_each_of_several_has_a_schedule_and_a_name_of_its_own():
    twice = components(listener=3, data=Path("/data"), counts={"beat": 2, "worker": 2})
    assert [each.label for each in twice] == [
        *("web", "relay", "sender", "beat", "beat-2", "backtests", "worker", "worker-2"),
    ]
    commands = {each.label: each.command for each in twice}
    assert "/data/beat-schedule" in commands["beat"]
    assert "/data/beat-schedule-2" in commands["beat-2"]
    assert "--hostname" not in commands["worker"]
    assert "worker-2@%h" in commands["worker-2"]


def up(folder: Path, *names: str) -> bool:
    return until(lambda: all((folder / f"{name}.up").exists() for name in names))


def test_the_last_process_stops_when_the_others_have_ended(supervise, tmp_path):
    with supervise(stays("web"), stays("relay"), stays("worker")) as service:
        service.start()
        assert up(tmp_path, "web", "relay", "worker")
    *others, last = (tmp_path / "order").read_text().split()
    assert sorted(others) == ["relay", "web"]
    assert last == "worker"


def test_a_process_that_dies_is_started_again(supervise, tmp_path, capsys):
    with supervise(stays("worker")) as service:
        service.start()
        assert up(tmp_path, "worker")
        first = service._running["worker"]
        first.send_signal(signal.SIGKILL)
        first.wait()
        (tmp_path / "worker.up").unlink()
        service.check()
        assert up(tmp_path, "worker")
    assert "worker ended with exit code -9; starting it again." in capsys.readouterr().err


def test_a_process_that_is_killed_is_started_again_however_often(supervise, monkeypatch):
    monkeypatch.setattr(supervisor, "_RESTART_SECONDS", 0.0)
    with supervise(stays("worker")) as service:
        service.start()
        for _ in range(20):
            service._running["worker"].kill()
            service._running["worker"].wait()
            service.check()
        assert service._running["worker"].poll() is None


def test_a_full_disk_does_not_end_the_launcher(supervise, tmp_path, capsys):
    with supervise(stays("worker")) as service:
        service.start()
        draft = tmp_path / "data" / "processes.new"
        draft.symlink_to("/dev/full")
        service._running["worker"].kill()
        service._running["worker"].wait()
        service.check()
        service.check()
        draft.unlink()
        service.check()
        worker = service._running["worker"]
        assert worker.poll() is None
        recorded = json.loads((tmp_path / "data" / "processes.json").read_text())
        assert recorded["worker"][0] == worker.pid
    told = capsys.readouterr().err
    assert told.count("worker ended with exit code -9") == 1
    assert told.count("is full: what ended is started once there is room.") == 1


class Lost:
    """Stands for a server that has ended, and starts again after so many failures."""

    def __init__(self, folder, failures):
        self.log = folder / "server.log"
        self.process = subprocess.Popen(["true"])
        self.process.wait()
        self.failures = failures

    def restart(self):
        if self.failures:
            self.failures -= 1
            raise StepFailed("start PostgreSQL (it ended with code 1)", "read the log above")
        self.process = subprocess.Popen(["sleep", "60"])


@pytest.fixture
def lost(supervise, tmp_path, monkeypatch):
    """Makes a supervisor whose PostgreSQL has ended, on a disk with so many bytes left."""
    made = []

    def make(failures, free):
        service = supervise(stays("worker"))
        server = service._servers.postgres = Lost(tmp_path, failures)
        made.append(server)
        monkeypatch.setattr(supervisor, "disk_usage", lambda _: SimpleNamespace(free=free))
        return service, server

    yield make
    for server in made:
        server.process.kill()
        server.process.wait()


def test_postgres_that_finds_no_room_to_start_is_started_once_there_is_some(lost, capsys):
    service, server = lost(failures=20, free=0)
    with service:
        service.start()
        for _ in range(20):
            service.check()
        assert server.process.poll() is not None
        service.check()
        assert server.process.poll() is None
    told = capsys.readouterr().err
    assert told.count("PostgreSQL ended with exit code 0") == 1
    assert told.count("is full: what ended is started once there is room.") == 1


def test_postgres_that_does_not_start_is_tried_again_and_then_given_up(lost, capsys):
    service, server = lost(failures=5, free=2**40)
    with service:
        service.start()
        for _ in range(6):
            service.check()
        assert server.process.poll() is None
    assert capsys.readouterr().err.count("PostgreSQL did not start; trying again.") == 5
    service, server = lost(failures=6, free=2**40)
    with service:
        service.start()
        for _ in range(5):
            service.check()
        with pytest.raises(StepFailed, match="it ended with code 1"):
            service.check()


def test_a_process_that_cannot_stay_up_is_given_up_with_the_end_of_its_log(supervise):
    dies = Component("worker", ("-c", "raise SystemExit('no such module')"), patience_seconds=1)

    def keep_up(service: Supervisor) -> None:
        while True:
            service._running["worker"].wait()
            service.check()

    with supervise(dies) as service:
        service.start()
        with pytest.raises(StepFailed) as failure:
            keep_up(service)
    assert "6 times within a minute, last with exit code 1" in failure.value.step
    assert "no such module" in str(failure.value)


def test_its_output_is_prefixed_with_its_name(supervise, tmp_path, capsys):
    with supervise(stays("web"), stays("worker"), output=Terminal()) as service:
        service.start()
        assert up(tmp_path, "web", "worker")
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == ["web       | hello from web", "worker    | hello from worker"]


def test_callers_wait_while_the_web_process_starts_again(supervise, tmp_path):
    service = supervise()
    listener = service._listener.fileno()
    web = Component("web", ("-c", SERVES, str(listener)), patience_seconds=5)
    service._components = (web,)
    with service:
        service.start()
        assert urllib.request.urlopen(service.url, timeout=10).status == 200
        first = service._running["web"]
        first.kill()
        first.wait()
        waiting = socket.create_connection(service._listener.getsockname())
        service.check()
        waiting.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert waiting.recv(12) == b"HTTP/1.0 200"
        waiting.close()


def test_a_port_that_is_taken_is_named_with_the_way_to_another_one():
    with listen(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StepFailed) as failure:
            listen(port)
    assert failure.value.step == f"listen on port {port}: Address already in use"
    assert "PORT=8001 ./dev serve" in failure.value.advice
