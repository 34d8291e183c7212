"""The command `alloc backtest`, which compares policies on a trace or on the history of a pool."""

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from math import isfinite
from typing import IO, Any

import click

from allocator_client._generated.documents.what_if import (
    BacktestDocument,
    BacktestRequest,
    BacktestRequestPolicy,
    BacktestResultsColumn,
    BacktestResultsDocument,
)
from allocator_client.cli.arguments import PAIRS
from allocator_client.cli.failures import Failure, WaitTimeout
from allocator_client.cli.output import echo, note, print_file, print_json, table
from allocator_client.cli.session import Instant, Session, in_zone, pool_names, with_session
from allocator_client.cli.waiting import wait_for
from allocator_client.cli.words import SECONDS_PER_HOUR, number, percent

# The first bytes of every gzip file (RFC 1952 §2.3.1).
_GZIP = b"\x1f\x8b"
_UNFINISHED = ("queued", "running")


class Words(click.ParamType[list[str]]):
    """Parameter type of a list of names, such as `static,drfh`."""

    name = "words"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[str]:
        words = value if isinstance(value, list) else [word.strip() for word in value.split(",")]
        if not all(words):
            self.fail(f"{value!r} is not written like static,drfh", param, ctx)
        return words


class Seeds(Words):
    """Parameter type of a list of numbers, such as `1,2,3`."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[Any]:
        words = super().convert(value, param, ctx)
        if not all(isinstance(word, int) or (word.isascii() and word.isdigit()) for word in words):
            self.fail(f"{value!r} is not written like 1,2,3", param, ctx)
        return [int(word) for word in words]


# A long trace takes minutes, for which the common option does not wait by default.
wait_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    help="Seconds to wait at most.",
)


@click.group()
def backtest() -> None:
    """Compare policies on the same tasks and servers.

    A backtest changes no decision.

    \b
    alloc backtest start quarter.gz --as sacct --servers 40 cpu=64,memory=256 --policies static,drfh
    alloc backtest start --pool lab --from 2027-01-01 --to 2027-02-01 --policies drf,h-mrf --wait
    """


@backtest.command()
@click.argument("trace", required=False, type=click.File("rb"))
@click.option(
    "--as",
    "kind",
    default="csv",
    show_default=True,
    metavar="FORMAT",
    help="Of the trace: csv, sacct, swf, ...; packed with gzip or not.",
)
@click.option(
    "--pool",
    metavar="SLUG",
    shell_complete=pool_names,
    help="Whose history, without a trace; of a trace, whose servers.",
)
@click.option("--from", "start_", type=Instant(), help="Of the history.")
@click.option("--to", "end", type=Instant(), help="Of the history.")
@click.option(
    "--servers",
    type=(click.IntRange(min=1), PAIRS),
    multiple=True,
    metavar="NUMBER cpu=64,memory=256",
    help="Instead of the pool's; once for each kind.",
)
@click.option(
    "--policies",
    type=Words(),
    required=True,
    metavar="static,drfh",
    help="The first is what the others are compared with.",
)
@click.option(
    "--set",
    "options",
    type=(str, PAIRS),
    multiple=True,
    metavar="POLICY OPTION=VALUE,...",
    help="Options of a policy.",
)
@click.option("--seeds", type=Seeds(), metavar="1,2,3", help="Of policies that draw.")
@click.option("--resample", is_flag=True, help="Draw the jobs of each seed with replacement.")
@click.option("--jobs-of", metavar="FIELD", help="Whose a job of the trace is: account, user, ...")
@click.option("--tenants", type=click.IntRange(min=1), help="Divide the jobs of alibaba or swim.")
@click.option(
    "--processors-per-node",
    type=click.IntRange(min=1),
    help="Size of a node, for swf: a job of more processors has a piece on each node.",
)
@click.option("--skip-bad-lines", is_flag=True, help="Count lines that cannot be read.")
@click.option("--name", default="", help="For your lists.")
@click.option("--wait", is_flag=True, help="Wait for the results, and show them.")
@wait_option
@with_session(csv=True)  # fmt: skip
def start(
    session: Session,
    *,
    trace: IO[bytes] | None,
    kind: str,
    pool: str | None,
    start_: datetime | None,
    end: datetime | None,
    servers: Sequence[tuple[int, dict[str, str]]],
    policies: list[str],
    options: Sequence[tuple[str, dict[str, str]]],
    seeds: list[int] | None,
    resample: bool,
    jobs_of: str | None,
    tenants: int | None,
    processors_per_node: int | None,
    skip_bad_lines: bool,
    name: str,
    wait: bool,
    timeout: float,
) -> None:
    """Start a backtest of a TRACE or of a pool's history."""
    if trace is not None and (start_ or end):
        raise click.UsageError("Name a trace, or --from and --to of a pool's history: not both.")
    if trace is None and not (start_ and end):
        raise click.UsageError("Name a trace's file, or --from and --to of a pool's history.")
    if session.format == "csv" and not wait:
        raise click.UsageError("--csv shows results: add --wait.")
    body: BacktestRequest = {
        "name": name,
        "policies": _policies(policies, options),
        "resample": resample,
        "servers": [{"capacity": {**capacity}, "count": count} for count, capacity in servers],
    }
    if seeds is not None:
        body["seeds"] = seeds
    if trace is not None:
        body["trace"] = {
            "format": kind,  # type: ignore[typeddict-item] # the service checks it
            "encoding": "gzip",
            "content": _pack(trace.read()),
            "skip_bad_lines": skip_bad_lines,
            "tenant": jobs_of,
            "tenants": tenants,
            "processors_per_node": processors_per_node,
        }
        body["pool"] = pool
    elif start_ and end:
        slug = body["pool"] = session.pool(pool)
        # A day without an offset is the pool's, as in its reports.
        zone = session.client.pools_show(slug).body["timezone"]
        begin, until = in_zone(start_, zone), in_zone(end, zone)
        if begin and until:
            body["history"] = {"from": begin.isoformat(), "to": until.isoformat()}
    made = session.client.backtests_request(body).body
    _print_backtest(session, _await_backtest(session, made["id"], timeout) if wait else made)


def _policies(
    names: Sequence[str], options: Sequence[tuple[str, dict[str, str]]]
) -> list[str | BacktestRequestPolicy]:
    given: dict[str, dict[str, Any]] = {}
    for name, pairs in options:
        if name not in names:
            raise click.UsageError(f"--set {name}: it is not among --policies {','.join(names)}")
        given.setdefault(name, {}).update({key: _value(text) for key, text in pairs.items()})
    return [{"name": name, "options": given[name]} if name in given else name for name in names]


def _value(text: str) -> Any:
    """Parse a number, `true` or `false`, and return any other text unchanged."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if isinstance(value, float):
        return value if isfinite(value) else text
    return value if isinstance(value, bool | int) else text


def _pack(content: bytes) -> str:
    """Return the content as gzip in base64."""
    packed = content if content.startswith(_GZIP) else gzip.compress(content, mtime=0)
    return base64.b64encode(packed).decode()


@backtest.command()
@click.argument("backtest")
@click.option("--wait", is_flag=True, help="Wait for the results.")
@wait_option
@with_session(csv=True)
def show(session: Session, backtest: str, wait: bool, timeout: float) -> None:
    """Show the progress and the results of a backtest."""
    found = (
        _await_backtest(session, backtest, timeout)
        if wait
        else session.client.backtests_show(backtest).body
    )
    _print_backtest(session, found)


@backtest.command()
@click.argument("backtest")
@with_session()
def cancel(session: Session, backtest: str) -> None:
    """Cancel a backtest.

    A second cancellation changes nothing.
    """
    found = session.client.backtests_cancel_act(backtest).body
    if session.for_people:
        echo(f"Backtest {found['id']} is cancelled.")
    else:
        print_json({"backtest": found, "results": None})


def _await_backtest(session: Session, backtest: str, seconds: float) -> BacktestDocument:
    """Wait until a backtest is finished, and print its progress to standard error."""
    shown = -1

    def look() -> BacktestDocument | None:
        nonlocal shown
        found = session.client.backtests_show(backtest).body
        if found["status"] not in _UNFINISHED:
            return found
        if found["progress"] != shown:
            shown = found["progress"]
            note(f"{found['status']}: {shown} %")
        return None

    try:
        return wait_for(look, seconds, f"result of backtest {backtest}")
    except WaitTimeout as error:
        raise WaitTimeout(
            f"{error.message} It goes on: alloc backtest show {backtest} --wait"
        ) from error


def _print_backtest(session: Session, found: BacktestDocument) -> None:
    """Print a backtest with any results. Raises `Failure` for one that failed or was cancelled."""
    done = found["status"] == "succeeded"
    client = session.client
    if session.format == "csv" and done:
        print_file(client.backtests_results_show_as(found["id"], format="csv"))
        return
    results = client.backtests_results_show(found["id"]).body if done else None
    if session.format == "json":
        print_json({"backtest": found, "results": results})
    if found["status"] == "cancelled":
        raise Failure(f"Backtest {found['id']} was cancelled.")
    if found["status"] == "failed":
        error = found["error"] or {}
        raise Failure(f"{error.get('detail', 'It failed.')} ({error.get('code', '')})")
    if session.format == "csv":
        raise Failure(f"Backtest {found['id']} is {found['status']}: wait for it with --wait.")
    if not session.for_people:
        return
    if results is None:
        echo(f"Backtest {found['id']} is {found['status']}: {found['progress']} %.")
        echo(f"Its results: alloc backtest show {found['id']} --wait")
    else:
        _show_results(results)


def _show_results(results: BacktestResultsDocument) -> None:
    resources, currency = results["resources"], results["currency"]
    charged = [f">CHARGED {currency}"] if currency else []
    table(
        ("POLICY", *(f">{name.upper()} IN USE" for name in resources), ">MEAN WAIT (h)",
         ">TASKS DONE", ">JAIN", ">LEAST DEGREE", *charged),
        (
            (_policy_text(each["policy"]), *_cells(each, resources, money=bool(currency)))
            for each in results["columns"]
        ),
    )  # fmt: skip
    for each in results["columns"]:
        if each["error"]:
            note(f"{_policy_text(each['policy'])} could not run it: {each['error']['detail']}")
    read = results["input"]
    echo(
        f"\n{read['tasks']:,} tasks of {read['tenants']} tenants on {read['servers']:,} servers;"
        f" SHA-256 of the input {read['digest']}"
    )


def _policy_text(policy: dict[str, Any]) -> str:
    options = ", ".join(f"{name} {value}" for name, value in policy["options"].items())
    return f"{policy['name']} ({options})" if options else str(policy["name"])


def _cells(
    column: BacktestResultsColumn, resources: Sequence[str], *, money: bool
) -> Iterator[str]:
    pool = column["pool"]

    def mean(spread: dict[str, float] | None) -> float | None:
        return None if spread is None else spread["mean"]

    for name in resources:
        yield percent(mean(pool["utilisation"][name]) if pool else None)
    wait = mean(pool["mean_waiting"]) if pool else None
    yield number(None if wait is None else wait / SECONDS_PER_HOUR)
    yield percent(mean(pool["completion_ratio"]) if pool else None)
    yield number(mean(pool["jain_index"]) if pool else None)
    yield number(mean(pool["min_sharing_degree"]) if pool else None)
    if money:
        yield str((column["money"] or {}).get("charged") or "-")
