"""Destinations for the output of the service's processes."""

import os
import sys
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO

_COLOURS = {"web": 36, "relay": 35, "sender": 34, "beat": 33, "backtests": 36, "worker": 32}
_NAME_WIDTH = max(map(len, _COLOURS))


class Output(ABC):
    """Destination with one stream per process."""

    @abstractmethod
    def stream(self, name: str) -> IO[bytes]:
        """Return a stream for the process `name`.

        The caller must close it after it has started the process.
        """

    @abstractmethod
    def log(self, name: str) -> Path | None:
        """Return the log file of the process `name`, or None if there is none."""

    @abstractmethod
    def drain(self) -> None:
        """Wait until the output of ended processes has arrived."""


class LogFiles(Output):
    """A file per process in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stream(self, name: str) -> IO[bytes]:
        return self.log(name).open("ab")

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def drain(self) -> None:
        """Do nothing, because processes write to the files themselves."""


class Terminal(Output):
    """Standard output, each line prefixed with the name of the process that wrote it."""

    def __init__(self) -> None:
        self._one_line_at_a_time = threading.Lock()
        self._colourful = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._readers: list[threading.Thread] = []

    def stream(self, name: str) -> IO[bytes]:
        reading, writing = os.pipe()
        reader = threading.Thread(target=self._copy, args=(name, os.fdopen(reading, "rb")))
        reader.daemon = True
        reader.start()
        self._readers.append(reader)
        return os.fdopen(writing, "wb")

    def log(self, name: str) -> None:
        """Return None, because the output is on the terminal."""

    def drain(self) -> None:
        for reader in self._readers:
            reader.join(timeout=1)

    def _copy(self, name: str, pipe: IO[bytes]) -> None:
        prefix = f"{name:<{_NAME_WIDTH}} | "
        if self._colourful:
            colour = _COLOURS.get(name.partition("-")[0], 37)
            prefix = f"\033[{colour}m{prefix}\033[0m"
        with pipe:
            for line in pipe:
                with self._one_line_at_a_time:
                    sys.stdout.write(prefix + line.decode(errors="replace").rstrip("\n") + "\n")
                    sys.stdout.flush()
