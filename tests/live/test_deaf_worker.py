"""A worker that takes no messages comes back by itself, whatever made it deaf."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from celery import Celery

from allocator_service.core.worker import pulse
from allocator_service.core.worker.watch import DEAF_EXIT_CODE
from launcher import folders, supervisor
from launcher.output import LogFiles
from launcher.processes import start, stop
from launcher.redis import Redis
from launcher.servers import Servers
from launcher.service import WORKER_OPTIONS, Component
from launcher.supervisor import Supervisor

WORKER = (
    "-m",
    "celery",
    "--quiet",
    "--app",
    "tests.live.waiting_worker",
    "worker",
    *WORKER_OPTIONS,
)
FREEZE_SECONDS = 6.0


@pytest.fixture
def folder():
    folder = folders.fresh("test")
    yield folder
    folder.remove()


@pytest.fixture
def broker(folder):
    server = Redis(folder)
    yield server
    server.stop()


@pytest.fixture
def app(broker):
    app = Celery(broker=broker.url)
    yield app
    app.close()


@pytest.fixture
def environment(broker, folder):
    return {
        **os.environ,
        "REDIS_URL": broker.url,
        "DJANGO_SETTINGS_MODULE": "allocator_service.settings.local",
        "ALLOCATOR_PROCESS": "worker",
        "PULSE_FILE": str(folder.path / "pulse"),
        "WORKER_SILENCE_SECONDS": "600",
    }


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def ask(app, folder: Path, *names: str) -> list[Path]:
    """Send tasks that begin by touching the file of that name and end when `go` exists."""
    for name in names:
        app.send_task("tests.wait", args=[str(folder / name), str(folder / "go")])
    return [folder / name for name in names]


def all_exist(files: list[Path]) -> bool:
    return all(file.exists() for file in files)


def test_acknowledgements_that_fail_do_not_fill_the_window(broker, app, environment, tmp_path):
    """Redis freezes while both children finish: neither acknowledgement arrives."""
    with (tmp_path / "worker.log").open("wb") as log:
        worker = start([sys.executable, *WORKER], env=environment, output=log)
    try:
        for number in range(2):
            folder = tmp_path / str(number)
            folder.mkdir()
            assert (
                until(lambda: all_exist(begun), 90) if (begun := ask(app, folder, "a", "b")) else 0
            )
            broker.process.send_signal(signal.SIGSTOP)
            (folder / "go").touch()
            time.sleep(FREEZE_SECONDS)
            broker.process.send_signal(signal.SIGCONT)
        last = tmp_path / "last"
        last.mkdir()
        (last / "go").touch()
        assert until(lambda: all_exist(asked), 30) if (asked := ask(app, last, *"cdefgh")) else 0
        assert worker.poll() is None
    finally:
        broker.process.send_signal(signal.SIGCONT)
        stop(worker, patience_seconds=10)


def test_a_deaf_worker_ends(app, environment, tmp_path):
    """Its window is full for good: it is connected, its children are idle, and messages wait."""
    ask(app, tmp_path, "a")
    deaf = {**environment, "DEAF": "1", "WORKER_SILENCE_SECONDS": "2"}
    with (tmp_path / "worker.log").open("wb") as log:
        worker = start([sys.executable, *WORKER], env=deaf, output=log)
    try:
        assert worker.wait(90) == DEAF_EXIT_CODE
    finally:
        stop(worker, patience_seconds=1)
    assert "worker_takes_no_messages" in (tmp_path / "worker.log").read_text()
    assert not (tmp_path / "a").exists()


def test_waiting_for_redis_or_for_long_tasks_is_no_silence(broker, app, environment, tmp_path):
    impatient = {**environment, "WORKER_SILENCE_SECONDS": "1"}
    begun = ask(app, tmp_path, "a", "b", "c")
    with (tmp_path / "worker.log").open("wb") as log:
        worker = start([sys.executable, *WORKER], env=impatient, output=log)
    try:
        assert until(lambda: all_exist(begun[:2]), 90)
        time.sleep(3)  # both children are at work, and the third message waits
        broker.process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        assert worker.poll() is None
        assert not pulse.is_silent(environment["PULSE_FILE"], 2.5)
        broker.process.send_signal(signal.SIGCONT)
        (tmp_path / "go").touch()
        assert until(lambda: all_exist(begun), 60)
    finally:
        broker.process.send_signal(signal.SIGCONT)
        stop(worker, patience_seconds=10)


class GivenServers(Servers):
    """Stands for servers that the environment names: nothing to watch."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.postgres = self.redis = None
        self.environment = environment

    def environ(self, **more: str) -> dict[str, str]:
        return {**self.environment, **more}


def test_the_launcher_replaces_a_worker_that_gives_no_sign_of_life(
    folder, app, environment, tmp_path, monkeypatch, capsys
):
    """Stopped as a whole, it cannot even end itself."""
    component = Component("worker", WORKER, patience_seconds=5, silence_seconds=3)
    monkeypatch.setattr(supervisor, "components", lambda **_: (component,))
    impatient = {**environment, "WORKER_SILENCE_SECONDS": "1"}
    service = Supervisor(
        Path(sys.executable), folder, GivenServers(impatient), 0, LogFiles(tmp_path)
    )
    with service:
        service.start()
        assert until(lambda: pulse.age_seconds(folder.path / "worker-pulse") is not None, 90)
        first = service._running["worker"]
        os.killpg(first.pid, signal.SIGSTOP)

        def replaced() -> bool:
            service.check()
            return bool(service._running["worker"].pid != first.pid)

        assert until(replaced, 60)
        (tmp_path / "go").touch()
        # What Redis hands to a stopped process is lost: rows are sent again, bare messages are not.
        asked = ask(app, tmp_path, "a")
        assert until(lambda: all_exist(asked), 60)
    assert "worker has given no sign of life for 3 s" in capsys.readouterr().err


def test_a_health_check_sees_whether_the_sign_is_fresh(tmp_path, monkeypatch):
    file = str(tmp_path / "pulse")
    assert pulse.age_seconds(file) is None
    assert not pulse.is_silent(file)
    pulse.give(file)
    assert 0 <= (pulse.age_seconds(file) or 0) < 30
    assert not pulse.is_silent(file)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 31)
    assert pulse.is_silent(file)
