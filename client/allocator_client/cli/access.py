"""The commands `alloc login` and `alloc logout`.

A key is checked before it is stored, and is never an argument.
"""

import os
import sys

import click

from allocator_client.cli import profiles
from allocator_client.cli.failures import NotSetUp
from allocator_client.cli.output import echo, note
from allocator_client.cli.profiles import Access
from allocator_client.cli.session import Session, profile_option, refuse_key
from allocator_client.client import Client
from allocator_client.errors import NotTheService

_LOCAL = ("localhost", "127.0.0.1", "[::1]")


@click.command(context_settings={"allow_extra_args": True})
@click.argument("url", required=False)
@profile_option
@click.pass_context
def login(context: click.Context, url: str | None, profile: str) -> None:
    """Store an address and a key.

    The command prompts for an address that is not known yet, and for the key, unless it is on standard
    input or in ALLOC_KEY. Both are stored only if the service accepts them.
    """
    # A second argument can only be a key, which is now in the history of the shell.
    if context.args:
        refuse_key()
    url = url or os.environ.get(profiles.URL) or profiles.address(profile)
    if not url and not sys.stdin.isatty():
        raise click.UsageError("Name the address: standard input is for the key.")
    url = url or click.prompt("Address of the service")
    try:
        with Client(url) as unknown:
            # Without the key first: a mistyped address must not get it.
            root = unknown.root_show().body
            address = unknown.url
            if "collections" not in root:
                raise NotTheService(f"{address} is not the allocation service.")
            key = _key()
        with Client(address, key) as client:
            session = Session(client, "table")
            # The first request with the key: it shows that the key works before it is stored.
            pools = [pool["slug"] for pool in client.pools_list()]
            tenant = session.tenant
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    profiles.store(profile, Access(address, key))
    if address.startswith("http:") and not address.startswith(tuple(f"http://{h}" for h in _LOCAL)):
        note("Others on the way can read the key: this address is not https.")
    who = f" as {tenant}" if tenant else ""
    echo(f"Logged in to {address}{who}. Pools: {', '.join(pools) or 'none yet'}.")
    echo(f"The key is in {profiles.file()}.")


def _key() -> str:
    key = os.environ.get(profiles.KEY)
    if key is None and sys.stdin.isatty():
        key = str(click.prompt("API key", hide_input=True))
    elif key is None:
        key = sys.stdin.readline()
    if not key.strip():
        raise NotSetUp(f"There is no key on standard input or in {profiles.KEY}.")
    return key.strip()


@click.command()
@profile_option
def logout(profile: str) -> None:
    """Remove a stored address and key."""
    if profiles.remove(profile):
        echo(f"Forgot profile {profile}. Its key stays valid until it expires or is revoked.")
    else:
        echo(f"There is no profile {profile}.")
