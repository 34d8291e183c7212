"""Supervisor of the service's processes, which starts, watches, restarts and stops them."""

import errno
import os
import signal
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage, rmtree
from types import FrameType

from allocator_service.core.worker import pulse
from launcher import processes
from launcher.console import StepFailed, echo
from launcher.folders import PROJECT, DataFolder
from launcher.output import Output
from launcher.postgres import Postgres
from launcher.redis import Redis
from launcher.servers import Servers
from launcher.service import DEFAULT_WEB_WORKERS, Component, components

_RECORD = "processes.json"
_WATCH_SECONDS = 0.2
_RESTART_SECONDS = 1.0
_RESTARTS_ALLOWED = 5
_RESTARTS_WITHIN_SECONDS = 60.0
_ROOM_BYTES = 64 * 1024**2  # PostgreSQL needs some segments of its log, of 16 MiB each, to start


class Supervisor:
    """The running service. Use as a context manager, whose exit stops all processes in order."""

    def __init__(
        self,
        python: Path,
        folder: DataFolder,
        servers: Servers,
        port: int,
        output: Output,
        *,
        port_patience_seconds: float = 0.0,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """Listen on `port` of this machine (0 for any free port) without starting a process.

        `counts` has the number of processes by name, by default one. Processes that a killed launcher
        left are killed first. Raises `StepFailed` if the port is still in use after
        `port_patience_seconds`.
        """
        self._python = python
        self._folder = folder.path
        self._servers = servers
        self._output = output
        self._recorded = self._folder / _RECORD
        # Before the port is taken: web processes of a killed launcher still hold it.
        processes.end_recorded(self._recorded, working_in=PROJECT)
        self._listener = listen(port, port_patience_seconds)
        self.url = f"http://{self._listener.getsockname()[0]}:{self._listener.getsockname()[1]}"
        self._components = components(
            listener=self._listener.fileno(), data=folder.path, counts=counts
        )
        self._running: dict[str, processes.Process] = {}
        self._ends: defaultdict[str, list[float]] = defaultdict(list)
        self._noted: dict[str, processes.Process] = {}
        self._failed_starts: Counter[str] = Counter()
        self._unrecorded = self._disk_is_full = False

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def start(self) -> None:
        """Start every component."""
        for component in self._components:
            self._start(component)

    def check(self) -> None:
        """Restart processes that have ended, or at a later call if the disk is full.

        Raises `StepFailed` if a process ends repeatedly.
        """
        try:
            self._start_again()
            if self._unrecorded:
                self._record()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            if not self._disk_is_full:
                echo(
                    f"The disk of {self._folder} is full: what ended is started once there is room."
                )
            self._disk_is_full = True
        else:
            self._disk_is_full = False

    def _start_again(self) -> None:
        noted = False
        ended = []
        for component in self._components:
            process = self._running[component.label]
            self._end_if_silent(component, process)
            if process.poll() is not None:
                ended.append(component)
                if self._noted.get(component.label) is not process:
                    self._note_end(component.label, process, self._output.log(component.label))
                    self._noted[component.label] = process
                    noted = True
        lost = [
            (name, server)
            for name, server in (
                ("PostgreSQL", self._servers.postgres),
                ("Redis", self._servers.redis),
            )
            if server is not None and server.process.poll() is not None
        ]
        for name, server in lost:
            if self._noted.get(name) is not server.process:
                self._note_end(name, server.process, server.log)
                self._noted[name] = server.process
        if noted or lost:
            # A process that ends at once would otherwise be started in a busy loop.
            time.sleep(_RESTART_SECONDS)
        for component in ended:
            self._start(component)
        for name, server in lost:
            self._restart(name, server)

    def _restart(self, name: str, server: Postgres | Redis) -> None:
        """Restart a server. If it does not start, the next call tries again.

        Raises `OSError` while the disk is full, and `StepFailed` if the server has repeatedly failed to
        start for another reason.
        """
        try:
            server.restart()
        except StepFailed as failed:
            if disk_usage(self._folder).free < _ROOM_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from failed
            self._failed_starts[name] += 1
            if self._failed_starts[name] > _RESTARTS_ALLOWED:
                raise
            echo(f"{name} did not start; trying again.")
        else:
            del self._failed_starts[name]

    def watch(self) -> None:
        """Keep everything running until a signal raises `KeyboardInterrupt`."""
        while True:
            self.check()
            time.sleep(_WATCH_SECONDS)

    def _start(self, component: Component) -> None:
        env = self._servers.environ(
            ALLOCATOR_PROCESS=component.name,
            WEB_CONCURRENCY=os.environ.get("WEB_CONCURRENCY", DEFAULT_WEB_WORKERS),
        )
        if component.name == "web":
            env["PROMETHEUS_MULTIPROC_DIR"] = str(self._metrics())
        if component.silence_seconds is not None:
            file = self._pulse_file(component)
            # The pulse of its predecessor would count as silence from the first check on.
            file.unlink(missing_ok=True)
            env["PULSE_FILE"] = str(file)
        with self._output.stream(component.label) as stream:
            self._running[component.label] = processes.start(
                [self._python, *component.command],
                env=env,
                cwd=PROJECT,
                output=stream,
                pass_fds=[self._listener.fileno()] if component.name == "web" else [],
                orphan_signal=signal.SIGQUIT,  # no client waits for its results
            )
        self._unrecorded = True
        self._record()

    def _record(self) -> None:
        """Record the running processes, so that the next launcher can end them if this one is killed."""
        pids = {name: process.pid for name, process in self._running.items()}
        processes.record(pids, self._recorded)
        self._unrecorded = False

    def _end_if_silent(self, component: Component, process: processes.Process) -> None:
        """End a process that gives no sign of life, with its children."""
        if component.silence_seconds is None or process.poll() is not None:
            return
        if pulse.is_silent(self._pulse_file(component), component.silence_seconds):
            echo(
                f"{component.label} has given no sign of life for {component.silence_seconds:.0f} s;"
                " ending it."
            )
            processes.stop(process, first=signal.SIGKILL)

    def _pulse_file(self, component: Component) -> Path:
        return self._folder / f"{component.label}-pulse"

    def _metrics(self) -> Path:
        """Return the shared metrics folder of the web processes, emptied if none of them runs."""
        metrics = self._folder / "metrics"
        others = (self._running.get(each.label) for each in self._components if each.name == "web")
        if all(other is None or other.poll() is not None for other in others):
            rmtree(metrics, ignore_errors=True)
            metrics.mkdir()
        return metrics

    def _note_end(self, name: str, process: processes.Process, log: Path | None) -> None:
        """Report the end of a process. Raises `StepFailed` if it ends repeatedly.

        A process that was killed with SIGKILL, for example for lack of memory, is restarted without
        limit.
        """
        now = time.monotonic()
        ends = [end for end in self._ends[name] if now - end < _RESTARTS_WITHIN_SECONDS]
        if process.returncode != -signal.SIGKILL:
            self._ends[name] = [*ends, now]
        if len(ends) >= _RESTARTS_ALLOWED and process.returncode != -signal.SIGKILL:
            raise StepFailed(
                f"keep {name} running: it ended {len(ends) + 1} times within a minute, "
                f"last with exit code {process.returncode}",
                "read what it wrote above" if log is None else f"read {log}",
                log=log,
            )
        echo(f"{name} ended with exit code {process.returncode}; starting it again.")

    def _stop(self) -> None:
        """Stop all processes, workers last.

        There are then no new requests and messages while the workers finish their current work.
        """
        # No new connection is accepted, while web processes finish their requests.
        self._listener.close()
        running = [each for each in self._components if each.label in self._running]
        last = self._components[-1].name
        with suppress(KeyboardInterrupt):
            self._stop_together([each for each in running if each.name != last])
            self._stop_together([each for each in running if each.name == last])
        for process in self._running.values():  # a second Ctrl-C ends the waiting
            processes.stop(process, first=signal.SIGKILL)
        self._recorded.unlink(missing_ok=True)
        self._output.drain()

    def _stop_together(self, some: Sequence[Component]) -> None:
        for component in some:
            self._running[component.label].terminate()
        for component in some:
            processes.finish(self._running[component.label], component.patience_seconds)


def listen(port: int, patience_seconds: float = 0.0) -> socket.socket:
    """Open a listening socket at HOST, by default the loopback address.

    Waits `patience_seconds` for a port that is in use, because its holder may be ending, and then raises
    `StepFailed`.
    """
    deadline = time.monotonic() + patience_seconds
    is_reported = False
    while True:
        listener = socket.socket()
        # Connections of the last service stay in TIME_WAIT for a minute, and would keep the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((os.environ.get("HOST", "127.0.0.1"), port))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline:
                raise StepFailed(
                    f"listen on port {port}: {error.strerror}",
                    "stop what uses it, or choose another one: PORT=8001 ./dev serve",
                ) from None
        else:
            return listener
        if not is_reported:
            is_reported = True
            echo(f"Port {port} is in use; waiting up to {patience_seconds:.0f} s for it.")
        time.sleep(_WATCH_SECONDS)


def interrupt_on_signals() -> None:
    """Make SIGTERM and SIGHUP end the launcher as Ctrl-C does, with all its processes."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
