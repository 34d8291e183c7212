"""Common parts of all commands, such as options, the client, the pool and the tenant."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property, wraps
from itertools import islice
from typing import Any, Concatenate, NoReturn, ParamSpec, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from allocator_client._generated.documents.decisions import AllocationDocument
from allocator_client._generated.documents.pools_and_members import PoolDocument
from allocator_client._generated.documents.servers_and_workloads import WorkloadDocument
from allocator_client.cli import profiles
from allocator_client.cli.failures import Failure, NotSetUp
from allocator_client.client import Client
from allocator_client.errors import AllocatorError, Problem

P = ParamSpec("P")
_NAMED = 20  # pools that a refusal lists
_COMPLETION_SECONDS = 2.0
_ATTEMPTS = 4  # about three seconds until an absent service is reported


@dataclass
class Session:
    """Client and output format of one command."""

    client: Client
    format: str

    def pool(self, given: str | None) -> str:
        """Return the given pool, or otherwise the only one that the key sees."""
        if given:
            return given
        # One page is enough for the refusal. The list itself would fetch all of them.
        seen = [pool["slug"] for pool in islice(self.client.pools_list(limit=_NAMED), _NAMED)]
        if not seen:
            raise Failure("This key sees no pool yet: an operator admits its tenant to one.")
        if len(seen) > 1:
            raise click.UsageError(f"Name a pool: {', '.join(seen)}")
        return seen[0]

    @cached_property
    def tenant(self) -> str | None:
        """Tenant of the key, or None for a key that sees several."""
        try:
            # Two are enough to know that the key is not of one tenant.
            seen = list(islice(self.client.tenants_list(limit=2), 2))
        except Problem as problem:
            # A key of a group sees members of its pool, and no list of tenants.
            if problem.code != "auth.scope":
                raise
            return None
        return seen[0]["slug"] if len(seen) == 1 else None

    def tenant_or(self, given: str | None) -> str:
        """Return the given tenant, or otherwise the key's own."""
        found = given or self.tenant
        if found is None:
            raise click.UsageError("This key sees several tenants: name one with --tenant.")
        return found

    def allocations(self, run: str) -> Iterator[AllocationDocument]:
        """Iterate over the allocations of a run."""
        return cast("Iterator[AllocationDocument]", iter(self.client.runs_allocations_list(run)))

    @property
    def for_people(self) -> bool:
        return self.format == "table"


def units(pool: PoolDocument) -> dict[str, str]:
    """Return the unit of each resource of a pool."""
    return {resource["name"]: resource.get("unit", "") for resource in pool["resources"]}


def find_workload(session: Session, slug: str, tenant: str | None, name: str) -> WorkloadDocument:
    """Return the workload of a name. Raises `Failure`."""
    found = list(session.client.pools_workloads_list(slug, name=name, tenant=tenant))
    if not found:
        raise Failure(f"There is no workload {name} of {tenant} in {slug}.")
    return found[0]


class Instant(click.ParamType[datetime]):
    """Parameter type of a day or a time. Without an offset it is in the pool's time zone."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is not a time such as 2027-01-05 or 2027-01-05T10:00Z", param, ctx
            )


def in_zone(time: datetime | None, zone: str) -> datetime | None:
    """Return a time with its offset, which is that of the zone if it has none.

    Raises `click.UsageError` for a time that the clocks of the zone skip or show twice.
    """
    if time is None or time.tzinfo is not None:
        return time
    place = find_time_zone(zone)
    first, second = (time.replace(tzinfo=place, fold=fold) for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        # There and back gives another time if the clocks are set forward past this one.
        is_shown = first.astimezone(UTC).astimezone(place).replace(tzinfo=None) == time
        raise click.UsageError(
            f"{time.isoformat()} {'is ambiguous' if is_shown else 'does not exist'} in {zone}, where the"
            f" clocks change: add an offset, such as {first.isoformat()}."
        )
    return first


def find_time_zone(name: str) -> tzinfo:
    """Return a pool's time zone. Raises `NotSetUp` on a machine without its data."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except ZoneInfoNotFoundError as error:
        raise NotSetUp(
            f"This machine does not know the time zone {name}: pip install tzdata"
        ) from error


def pool_names(context: click.Context, _: click.Parameter, typed: str) -> list[str]:
    """Return the pools that start with the typed text, for the shell's completion.

    After an error or a timeout there are none.
    """
    try:
        found = profiles.access(context.params.get("profile") or profiles.DEFAULT)
        # The shell waits for it at each Tab, so that one short attempt has to do.
        with Client(found.url, found.key, timeout=_COMPLETION_SECONDS, attempts=1) as client:
            seen = [pool["slug"] for pool in islice(client.pools_list(), 1000)]
    except (AllocatorError, click.ClickException, ValueError):
        return []
    return [slug for slug in seen if slug.startswith(typed)]


def refuse_key(*_: object) -> NoReturn:
    raise click.UsageError(
        "A key on the command line is seen by everybody on this machine (ps) and kept in the shell's "
        "history. Have this one revoked; give the next one to `alloc login` when it asks, on standard "
        f"input, or in {profiles.KEY}."
    )


def profile_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--profile`, and refuse `--key`."""
    function = click.option(
        "--key",
        hidden=True,
        expose_value=False,
        callback=lambda _, __, value: refuse_key() if value else None,
    )(function)
    return click.option(
        "--profile",
        envvar=profiles.PROFILE,
        default=profiles.DEFAULT,
        metavar="NAME",
        help="Which stored address and key to use.",
    )(function)


@contextmanager
def open_session(profile: str, format: str) -> Iterator[Session]:
    """Open a session with the access of the environment or of the profile."""
    found = profiles.access(profile)
    try:
        client = Client(found.url, found.key, attempts=_ATTEMPTS)
    except ValueError as error:
        raise NotSetUp(str(error)) from error
    with client:
        yield Session(client, format)


def with_session(
    *, csv: bool = False
) -> Callable[[Callable[Concatenate[Session, P], None]], Callable[..., None]]:
    """Pass a `Session` to a command as its first argument, and add the common options."""

    def decorate(function: Callable[Concatenate[Session, P], None]) -> Callable[..., None]:
        @wraps(function)
        def command(profile: str, format: str | None, *args: P.args, **kwargs: P.kwargs) -> None:
            with open_session(profile, format or "table") as session:
                function(session, *args, **kwargs)

        with_options = profile_option(command)
        if csv:
            with_options = _format("csv", "The service's CSV.")(with_options)
        return _format("json", "The service's JSON, for scripts.")(with_options)

    return decorate


def _format(name: str, help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(f"--{name}", "format", flag_value=name, help=help)


def pool_argument(function: Callable[..., None]) -> Callable[..., None]:
    """Add the argument `[POOL]`, by default the only pool that the key sees."""
    return click.argument("pool", required=False, shell_complete=pool_names)(function)


def tenant_option(function: Callable[..., None]) -> Callable[..., None]:
    return click.option("--tenant", metavar="SLUG", help="Of an operator: whose.")(function)
