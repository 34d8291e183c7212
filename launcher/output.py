"""Where the output of the service's processes goes: the terminal, line by line, or files."""

import os
import sys
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO

_COLOURS = {"web": 36, "relay": 35, "sender": 34, "beat": 33, "backtests": 36, "worker": 32}
_NAME_WIDTH = max(map(len, _COLOURS))


class Output(ABC):
    """Gives each process that starts a stream of its own."""

    @abstractmethod
    def stream(self, name: str) -> IO[bytes]:
        """A stream for the process `name`; the caller closes it when the process has it."""

    @abstractmethod
    def log(self, name: str) -> Path | None:
        """The file that holds what the process `name` wrote, where there is one."""

    @abstractmethod
    def drain(self) -> None:
        """Wait until what ended processes wrote has arrived."""


class LogFiles(Output):
    """A file per process in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stream(self, name: str) -> IO[bytes]:
        return self.log(name).open("ab")

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def drain(self) -> None:
        """Files need no waiting."""


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
        """None: it was printed, and the terminal keeps it."""

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
