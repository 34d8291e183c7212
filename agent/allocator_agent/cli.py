"""The command line `allocator-agent`, which runs one round or repeats rounds until it is stopped."""

from __future__ import annotations

import argparse
import logging
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from allocator_agent import __version__
from allocator_agent.changes import counts_text
from allocator_agent.checking import SchedulerCheck, check
from allocator_agent.configuration import QUOTAS, RECLAIM, Configuration, read_configuration
from allocator_agent.errors import AgentError, Misconfigured
from allocator_agent.findings import exit_code, summary
from allocator_agent.kubernetes.api import Api
from allocator_agent.kubernetes.checking import KubernetesCheck
from allocator_agent.kubernetes.orchestrating import EffectiveKueue
from allocator_agent.kubernetes.scheduler import Kubernetes
from allocator_agent.notify import notify
from allocator_agent.rounds import Outcome, Rounds, Scheduler
from allocator_agent.service import Service
from allocator_agent.slurm.checking import SlurmCheck
from allocator_agent.slurm.commands import Commands
from allocator_agent.slurm.scheduler import Slurm

logger = logging.getLogger("allocator_agent")
DEFAULT_CONFIGURATION = Path("/etc/allocator-agent.ini")
DEFAULT_INTERVAL_SECONDS = 15.0
_SHORTEST_INTERVAL_SECONDS = 1.0
_GLANCE_SECONDS = 0.1
_MOST_LINES = 100  # of a round, in the log
_EPILOG = """\
check writes nothing, and lists what holds and what is missing before the first round.

exit codes of --once and --dry-run: 0 all is applied; 1 something could not be done (it is listed);
2 the configuration is wrong; 3 the service does not answer; 4 the scheduler does not.
check ends with 2, 3 or 4 in the same cases, else with 1 if something is missing.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command and (options.once or options.every or options.dry_run):
        parser.error(f"{options.command} is not a round: leave out --once, --every and --dry-run")
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(levelname)s %(message)s",
        stream=sys.stderr,
        force=True,
    )
    try:
        configuration = read_configuration(options.config)
        if options.reclaim:
            configuration = configuration.with_reclaim(options.reclaim)
        if options.quotas:
            configuration = configuration.with_quotas(options.quotas)
        if options.command == "check":
            return _check(configuration, options.config)
        scheduler = scheduler_of(configuration)
        rounds = Rounds(
            configuration,
            Service(configuration),
            scheduler,
            interval_seconds=options.every or DEFAULT_INTERVAL_SECONDS,
        )
        if options.every and not options.dry_run:
            return _forever(rounds, scheduler, options.every)
        outcome = rounds.once(dry_run=options.dry_run)
    except AgentError as error:
        logger.error("%s", error)  # noqa: TRY400 - a person reads it
        return error.exit_code
    if options.dry_run:
        sys.stdout.write("\n".join(_plan(configuration, outcome)) + "\n")
    else:
        _log(outcome, configuration.scheduler)
    return 1 if outcome.problems else 0


def scheduler_of(configuration: Configuration) -> Scheduler:
    """Return the scheduler that the configuration names."""
    if configuration.scheduler == "slurm":
        return Slurm(configuration, Commands(configuration.slurm.bin))
    if configuration.quota == "effective":
        return EffectiveKueue(configuration, Api(configuration.kubernetes))
    return Kubernetes(configuration, Api(configuration.kubernetes))


def _check(configuration: Configuration, path: Path) -> int:
    """Print the conditions of the first round, with those that are missing."""
    sections = []
    for section in check(configuration, path, Service(configuration), check_of(configuration)):
        sections.append(section)
        sys.stdout.write("\n".join(section.lines()) + "\n")
        # A scheduler that hangs must not hide what the service lacks.
        sys.stdout.flush()
    sys.stdout.write(summary(sections) + "\n")
    return exit_code(sections)


def check_of(configuration: Configuration) -> SchedulerCheck:
    """Return the checks of the scheduler that the configuration names."""
    if configuration.scheduler == "slurm":
        return SlurmCheck(configuration, Commands(configuration.slurm.bin))
    return KubernetesCheck(configuration, Api(configuration.kubernetes))


def seconds(text: str) -> float:
    """Return the seconds of a time such as `15s`, `2m` or `15`."""
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(s|m|)", text)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError("is a time above 0 such as 15s or 2m")
    return float(match[1]) * (60 if match[2] == "m" else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="allocator-agent",
        description="Feeds the allocation service and makes a scheduler obey its decisions.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "command",
        nargs="?",
        choices=("check",),
        help="list what is missing before the first write, and write nothing",
    )
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIGURATION, metavar="FILE")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--once", action="store_true", help="one round, then end (the default)")
    mode.add_argument(
        "--every", type=seconds, metavar="15s", help="a round at this interval until stopped"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what a round would change, change nothing"
    )
    parser.add_argument(
        "--reclaim", choices=RECLAIM, help="whether jobs above the decision are requeued"
    )
    parser.add_argument(
        "--quotas",
        choices=QUOTAS,
        help="whether Kueue's quotas are written to specs, or to statuses as effective quotas",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="log every round, also those that change nothing"
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _forever(rounds: Rounds, scheduler: Scheduler, interval: float) -> int:
    """Run rounds until SIGTERM or SIGINT. An error of a round is logged, and the next tries again."""
    stopped, woken = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    if isinstance(scheduler, Kubernetes):
        scheduler.follow(stopped, woken)
    notify("READY=1")
    last = ""
    while not stopped.is_set():
        began = time.monotonic()
        try:
            _log(rounds.once(), scheduler.target)
            last = ""
        except Misconfigured:
            raise
        except AgentError as error:
            if str(error) != last:  # once, not in every round
                logger.error("%s; limits stay, the next round tries again", error)  # noqa: TRY400
            last = str(error)
        notify("WATCHDOG=1")
        # A changed node begins the next round early, but a flapping one does not keep the agent busy.
        _pause(began + interval, stopped, woken)
        woken.clear()
        _pause(began + min(interval, _SHORTEST_INTERVAL_SECONDS), stopped)
    return 0


def _pause(until: float, *events: threading.Event) -> None:
    """Sleep until an instant or any event, without a lock that a signal handler needs."""
    while not any(event.is_set() for event in events) and time.monotonic() < until:
        time.sleep(max(0.0, min(_GLANCE_SECONDS, until - time.monotonic())))


def _log(outcome: Outcome, scheduler: str) -> None:
    took = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in outcome.seconds.items())
    lines = outcome.lines(scheduler)
    level = logging.INFO if lines else logging.DEBUG
    counts = counts_text(outcome.changes)
    logger.log(level, "generation %s: %s (%s)", outcome.generation, counts, took)
    for line in lines[:_MOST_LINES]:
        logger.info("%s", line)
    if len(lines) > _MOST_LINES:
        logger.info("... and %d more", len(lines) - _MOST_LINES)
    for problem in outcome.problems:
        logger.warning("%s", problem)


def _plan(configuration: Configuration, outcome: Outcome) -> list[str]:
    """Return a dry run as lines for people."""
    decided = "no decision" if outcome.generation is None else f"generation {outcome.generation}"
    return [
        f"pool {configuration.pool}, {decided}",
        *outcome.lines(configuration.scheduler),
        *(f"cannot: {problem}" for problem in outcome.problems),
        f"To the service: {counts_text(outcome.sent)}.",
        f"Plan: {counts_text(outcome.changes)}.",
    ]
