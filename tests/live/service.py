"""The service's processes, started and stopped by tests: all but the one that computes backtests."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from launcher.client import Client
from launcher.processes import Process, start, stop, wait_until_ready
from launcher.service import components

PROJECT = Path(__file__).parents[2]
# Loads Django once and forks for each command: to load it takes longer than most commands do.
_FORK_COMMANDS = """
import json, os, sys, tempfile, traceback, django
from allocator_service.command_line import main
django.setup()
for line in sys.stdin:
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if not child:
            code = 1
            try:
                os.dup2(output.fileno(), 1)
                sys.argv = ["manage.py", *json.loads(line)]
                main()
                code = 0
            except SystemExit as ended:
                code = int(bool(ended.code))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        print(json.dumps([os.waitstatus_to_exitcode(status), output.read()]), flush=True)
"""


class LiveService:
    """The running processes, and what tests do with them."""

    def __init__(self, environment: dict[str, str], logs: Path, project: Path = PROJECT) -> None:
        """`project` holds the sources that run: this tree, or another release's."""
        self._project = project
        self.environment = {**os.environ, **environment}
        self.logs = logs
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._components = {
            component.name: component
            for component in components(listener=self._listener.fileno(), data=logs)
        }
        self.processes: dict[str, Process] = {}
        self._manager: subprocess.Popen[str] | None = None

    def start(self, *names: str) -> None:
        for name in names:
            with (self.logs / f"{name}.log").open("ab") as log:
                self.processes[name] = start(
                    [sys.executable, *self._components[name].command],
                    env={**self.environment, "ALLOCATOR_PROCESS": name, "WEB_CONCURRENCY": "1"},
                    cwd=self._project,
                    output=log,
                    pass_fds=[self._listener.fileno()],
                )

    def stop(self) -> None:
        for process in self.processes.values():
            stop(process, patience_seconds=10)
        if self._manager is not None:
            self._manager.communicate()
        self._listener.close()

    def manage(self, *arguments: str) -> str:
        """Run a management command in a process of its own; returns its standard output."""
        env = {**self.environment, "ALLOCATOR_PROCESS": "manage"}
        if arguments[0] == "migrate":  # has settings of its own
            command = [sys.executable, "manage.py", *arguments]
            return subprocess.check_output(command, env=env, cwd=self._project, text=True).strip()
        if self._manager is None:
            self._manager = subprocess.Popen(
                [sys.executable, "-c", _FORK_COMMANDS],
                env=env,
                cwd=self._project,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._manager.stdin is not None
        assert self._manager.stdout is not None
        self._manager.stdin.write(f"{json.dumps(arguments)}\n")
        self._manager.stdin.flush()
        code, printed = json.loads(self._manager.stdout.readline())
        if code:
            raise subprocess.CalledProcessError(code, arguments, printed)
        return str(printed).strip()

    def client(self, scope: str, name: str, *options: str) -> Client:
        return Client(
            self.url, self.manage("apikey", "create", "--scope", scope, "--name", name, *options)
        )

    def ready(self) -> bool:
        """Whether all but who computes backtests, whom few tests need, are at work."""
        answer = Client(self.url).request("GET", "/readyz")
        states = {state for name, state in answer.body["checks"].items() if name != "backtests"}
        return answer.status == 200 and states == {"ok"}

    def launch(self) -> None:
        """Start every process on a migrated database, and wait until all of them are at work."""
        self.start("web", "relay", "sender", "worker", "beat")
        wait_until_ready(
            self.ready,
            process=self.processes["web"],
            step="start the service",
            log=self.logs / "web.log",
            seconds=60,
        )
