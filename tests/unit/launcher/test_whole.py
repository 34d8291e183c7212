"""The whole of `./dev demo` and of `./dev serve` with `./dev manage`, as a newcomer runs them."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from launcher.folders import PROJECT
from tests.unit.launcher.conftest import until

SERVERS = ("DATABASE_URL", "MIGRATION_DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start `./dev`, without the servers of this test session."""
    env = {name: value for name, value in os.environ.items() if name not in SERVERS}
    return subprocess.Popen(
        [sys.executable, PROJECT / "dev", *arguments],
        env=env | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def running(state_home: Path) -> set[int]:
    """The processes that inherited the variable with the data folder of one test."""
    mark = f"ALLOCATOR_STATE_DIR={state_home}".encode()
    found = set()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in environment.read_bytes():
                found.add(int(environment.parent.name))
    return found


def commands(processes: set[int]) -> list[str]:
    """What these processes run, for a message."""
    told = []
    for process in processes:
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            waits = Path(f"/proc/{process}/wchan").read_text()
            told.append(f"{process} {line or '(a zombie)'} in {waits}")
    return told


def test_the_demo_reaches_a_verified_decision_and_leaves_nothing_but_its_picture(state_home):
    demo = start("demo", "--exit")
    output, errors = demo.communicate(timeout=120)
    assert demo.returncode == 0, errors
    assert "12 tenants on 12,583 servers of 10 classes" in output
    assert "Verified without a solver: valid" in output
    assert "FAILED" not in output
    assert (PROJECT / "demo.svg").read_text().startswith("<svg ")
    assert [path.name for path in (state_home / "demo").iterdir()] == ["lock"]
    assert running(state_home) == set()


def test_serve_keeps_its_data_and_shares_its_servers_with_management_commands(state_home):
    serve = start("serve", PORT="0", WEB_CONCURRENCY="1")
    assert serve.stderr is not None
    url = next(match[1] for line in serve.stderr if (match := re.search(r"at (http\S+)", line)))
    manage = start("manage", "apikey", "create", "--scope", "operator", "--name", "me")
    key, errors = manage.communicate(timeout=60)
    assert manage.returncode == 0, errors
    assert re.fullmatch(r"\S+\n", key)

    request = urllib.request.Request(f"{url}/api/v1/pools/")
    request.add_header("Authorization", f"Bearer {key.strip()}")
    with urllib.request.urlopen(request, timeout=30) as response:
        assert json.load(response) == {"results": [], "next": None}

    serve.send_signal(signal.SIGTERM)
    output, errors = serve.communicate(timeout=60)
    assert serve.returncode == 0, errors
    assert errors.endswith("Stopped.\n")
    assert all(
        re.match(r"(web      |relay    |sender   |beat     |backtests|worker   ) \| ", line)
        for line in output.splitlines()
    )
    assert running(state_home) == set()

    again = start("manage", "apikey", "list")
    listed, errors = again.communicate(timeout=60)
    assert key[:10] in listed, errors


def test_kill_9_of_serve_leaves_no_process(state_home):
    """As a background job of a script, which ignores SIGQUIT and has all that it starts ignore it."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    serve = start("serve", PORT="0", WEB_CONCURRENCY="1")
    signal.signal(signal.SIGQUIT, before)
    assert serve.stderr is not None
    assert any("Serving at http" in line for line in serve.stderr)
    # Itself, web with its worker, relay, sender, beat, and worker with two children, at the least.
    assert until(lambda: len(running(state_home)) >= 9, seconds=30)
    serve.kill()
    serve.communicate()
    assert until(lambda: not running(state_home), seconds=30), commands(running(state_home))
