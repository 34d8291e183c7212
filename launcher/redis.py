"""The launcher's own Redis-protocol server (Valkey or Redis), on a private Unix socket."""

import contextlib
import signal
import socket
from pathlib import Path

from launcher import binaries, processes
from launcher.folders import DataFolder

_PING = b"PING\r\n"
_PONG = b"+PONG"


class Redis:
    """A running Redis-protocol server on the data of a `DataFolder`."""

    def __init__(self, folder: DataFolder, *, durable: bool = True) -> None:
        """Start the server, without data on disk if `durable` is False. Raises `StepFailed`."""
        self._folder = folder
        self._durable = durable
        self._program = binaries.redis_program(folder)
        self._data = folder.subfolder("redis")
        self.log = folder.logs / "redis.log"
        self._socket = folder.sockets / "redis.sock"
        self.process = self._start()

    @property
    def url(self) -> str:
        """URL in the form of Celery's broker.

        The form of redis-py is `unix://<path>?db=0`.
        """
        return f"redis+socket://{self._socket}?virtual_host=0"

    def stop(self) -> None:
        """Stop the server. A durable server has all acknowledged writes on disk."""
        processes.stop(self.process)

    def restart(self) -> None:
        """Start the server again after it died."""
        self.process = self._start()

    def _start(self) -> processes.Process:
        processes.end_processes_in(
            self._data,
            step="wait for the previous Redis to end",
            program=self._program.name,
            signals=[signal.SIGKILL],
        )
        # The file outlives a server that was killed, and no other could bind it.
        self._socket.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            process = processes.start(
                [
                    *(self._program, "--port", "0", "--daemonize", "no", "--save", ""),
                    *("--unixsocket", self._socket, "--unixsocketperm", "700"),
                    # The queues are in it: to evict a key would drop messages without an error.
                    *("--dir", self._data, "--maxmemory-policy", "noeviction"),
                    *("--appendonly", "yes" if self._durable else "no"),
                ],
                cwd=Path("/"),
                account=self._folder.account,
                output=log,
                orphan_signal=signal.SIGTERM,
            )
        processes.wait_until_ready(
            self._answers, process=process, step="start Redis", log=self.log, seconds=60
        )
        return process

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(self._socket))
            connection.sendall(_PING)
            return connection.recv(64).startswith(_PONG)
        return False
