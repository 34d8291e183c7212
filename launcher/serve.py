"""`./dev serve`, the service in the foreground on persistent data."""

import os
import re
import time
from collections.abc import Mapping, Sequence

from launcher import commands, folders
from launcher.console import StepFailed, echo
from launcher.environment import VirtualEnvironment
from launcher.folders import DataFolder, InUse
from launcher.kernels import Kernels
from launcher.output import Terminal
from launcher.servers import Servers
from launcher.service import NAMES
from launcher.supervisor import Supervisor, interrupt_on_signals

DATA = "serve"
_DEFAULT_PORT = "8000"
_PORT_PATIENCE_SECONDS = 60.0
# A management command that has the data may make all tables first, on a slow machine.
_PATIENCE_SECONDS = 600.0
_MOST = 16


def serve(counts: Mapping[str, int]) -> int:
    """Run the service until Ctrl-C or SIGTERM.

    `counts` has the number of processes by name, by default one. Raises `StepFailed`.
    """
    with folders.announce_start(DATA):
        return _serve(counts)


def _serve(counts: Mapping[str, int]) -> int:
    python = VirtualEnvironment().ensure("local")
    interrupt_on_signals()
    folder = _take_folder()
    kernels = Kernels(python)
    try:
        kernels.start_first()
        with (
            Servers(folder) as servers,
            Supervisor(
                *(python, folder, servers, _port(), Terminal()),
                port_patience_seconds=_PORT_PATIENCE_SECONDS,
                counts=counts,
            ) as service,
        ):
            commands.migrate_if_changed(python, servers, folder.path)
            kernels.wait_for_first()
            service.start()
            folder.publish(servers.environment | {"url": service.url})
            _welcome(service.url, folder)
            kernels.start_rest()
            service.watch()
    except KeyboardInterrupt:
        echo("Stopped.")
    finally:
        kernels.stop()
        folder.release()
    return 0


def counts_of(arguments: Sequence[str]) -> dict[str, int] | None:
    """Return the counts in `--processes web=2,worker=3`, or None if the arguments are invalid."""
    if not arguments:
        return {}
    if len(arguments) != 2 or arguments[0] != "--processes":
        return None
    found = {}
    for part in arguments[1].split(","):
        match = re.fullmatch(rf"({'|'.join(NAMES)})=([1-9][0-9]?)", part)
        if match is None or int(match[2]) > _MOST or match[1] in found:
            return None
        found[match[1]] = int(match[2])
    return found


def _port() -> int:
    port = os.environ.get("PORT", _DEFAULT_PORT)
    if not port.isdigit() or int(port) > 65_535:
        raise StepFailed("read PORT", f"set it to a number from 1 to 65535; it is {port!r}")
    return int(port)


def _take_folder() -> DataFolder:
    """Lock the data folder, after any `./dev manage` that runs the servers has ended."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return folders.persistent(DATA)
        except InUse as in_use:
            state = folders.published_state(in_use.folder) or {}
            step = f"take the data in {in_use.folder}"
        if "url" in state:
            raise StepFailed(
                step, f"another ./dev serve runs on it, at {state['url']}: use that one or stop it"
            )
        if time.monotonic() > deadline:
            raise StepFailed(step, "another ./dev serve or ./dev manage uses it: stop that one")
        time.sleep(0.1)


def _welcome(url: str, folder: DataFolder) -> None:
    echo(
        f"""
Serving at {url} on the data in {folder.path} (Ctrl-C or ./dev stop ends it)
  An account for {url}/admin/ :  ./dev manage createsuperuser
  A key for an operator               :  ./dev manage apikey create --scope operator --name me
  Whether every part is up            :  curl {url}/readyz
"""
    )
