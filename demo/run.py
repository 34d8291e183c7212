"""`./dev demo`, the main job from an empty database to a verified decision.

The service then runs for further requests. It has a data folder of its own and a free port, and leaves
only the picture behind.
"""

import time
from pathlib import Path

from demo import report
from demo.main_job import run_main_job
from launcher import commands, folders
from launcher.client import Client
from launcher.console import StepFailed, echo
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT, DataFolder
from launcher.kernels import Kernels
from launcher.output import LogFiles
from launcher.servers import Servers
from launcher.supervisor import Supervisor, interrupt_on_signals

PICTURE = PROJECT / "demo.svg"
_STALL_SECONDS = 60.0  # without any progress
_UP_SECONDS = 600.0
_NOTICE_SECONDS = 15.0


def demo(*, stay: bool) -> int:
    """Run the main job and show its decision.

    With `stay`, the service then runs until Ctrl-C. Returns 0 if the decision is verified. Raises
    `StepFailed`, after which the logs stay until the next demo.
    """
    began = time.monotonic()
    python = VirtualEnvironment().ensure("local")
    interrupt_on_signals()
    folder = folders.fresh("demo")
    kernels = Kernels(python)
    valid = True
    try:
        # Compiling takes longest, so that it goes on while the database is set up.
        kernels.start_first()
        valid = _show(python, folder, kernels, began, stay=stay)
    except KeyboardInterrupt:
        echo("Stopped.")
    except StepFailed:
        # Not removed: the logs in it show why the step failed.
        folder.release()
        raise
    finally:
        kernels.stop()
    folder.remove()
    return 0 if valid else 1


def _show(python: Path, folder: DataFolder, kernels: Kernels, began: float, *, stay: bool) -> bool:
    with (
        Servers(folder) as servers,
        Supervisor(python, folder, servers, 0, LogFiles(folder.logs)) as service,
    ):
        echo("PostgreSQL and Redis are up; making the tables ...")
        commands.migrate(python, servers)
        kernels.wait_for_first()
        service.start()
        key = _new_key(python, servers)
        _wait_until_up(service, folder.logs)
        echo(f"The service is up at {service.url} after {time.monotonic() - began:.0f} s")
        decision = run_main_job(Client(service.url, key), check_service=service.check)
        print(report.table(decision))
        PICTURE.write_text(report.picture(decision))
        print(f"\nPicture: {PICTURE}\nTime: {time.monotonic() - began:.1f} s", flush=True)
        if stay:
            # Only now, so that compiling the rest does not slow down the decision that is shown.
            kernels.start_rest()
            print(invitation(service.url, key, folder.logs), flush=True)
            service.watch()
    return bool(decision.verification["valid"])


def _new_key(python: Path, servers: Servers) -> str:
    """Create an operator's key with the management command that operators use."""
    return commands.run_step(
        "make an API key",
        [python, "manage.py", "apikey", "create", "--scope", "operator", "--name", "demo"],
        servers.environ(ALLOCATOR_PROCESS="manage"),
        "read its output above",
    ).strip()


def _wait_until_up(service: Supervisor, logs: Path) -> None:
    """Wait until the service reports that it is ready.

    A busy machine may need minutes. The wait goes on while the reported state changes or the processes
    write to their logs, and prints the reported state from time to time.
    """
    began = moved = noted = time.monotonic()
    client, seen = Client(service.url), ("", -1)
    while True:
        # A process that ended is reported at once, and not after a minute without progress.
        service.check()
        reported, ready = _readiness(client)
        if ready:
            return
        now, state = time.monotonic(), (reported, _log_bytes(logs))
        if state != seen:
            moved, seen = now, state
        if now - moved > _STALL_SECONDS or now - began > _UP_SECONDS:
            raise StepFailed(
                f"wait until the service is ready (it reported: {reported})",
                f"read the logs in {logs}",
                log=logs / "web.log",
            )
        if now - noted > _NOTICE_SECONDS:
            noted = now
            echo(f"Still waiting for the service after {now - began:.0f} s; it reports: {reported}")
        time.sleep(0.1)


def _readiness(client: Client) -> tuple[str, bool]:
    """Return the state that the service reports, and whether it is ready."""
    try:
        answer = client.request("GET", "/readyz")
    except OSError as error:
        return str(error), False
    return str(answer.body), answer.status == 200


def _log_bytes(logs: Path) -> int:
    """Return the total size of the logs, except that of the web process, which logs these requests."""
    return sum(log.stat().st_size for log in logs.glob("*.log") if log.name != "web.log")


def invitation(url: str, key: str, logs: Path) -> str:
    """Return what the demo prints while it goes on, with commands for a shell."""
    return f"""
The service goes on at {url} until Ctrl-C (its logs: {logs}). To go on with it:

  KEY={key}
  URL={url}/api/v1
  api() {{ curl -sS -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' "$@"; echo; }}

  api $URL/pools/google-mix/decision/                  # what is in force now
  api "$URL/pools/google-mix/allocations/?format=csv"  # who got what
  # a thirteenth group brings servers and wants to run tasks; the next decision follows by itself
  api $URL/tenants/ -d '{{"slug": "newcomer", "name": "Newcomer"}}'
  api $URL/pools/google-mix/servers/ -d '{{"name": "rack", "contributed_by": "newcomer",
    "count": 200, "capacity": {{"cpu": "0.50", "memory": "0.50"}}}}'
  api $URL/pools/google-mix/workloads/ -d '{{"tenant": "newcomer", "name": "analysis",
    "demand": {{"cpu": 0.05, "memory": 0.02}}}}'
  api "$URL/pools/google-mix/allocations/?by=tenant"

The interface describes itself at {url}/api/v1/docs/"""
