"""Settings with which a process reaches PostgreSQL, on the web perhaps through a pooler."""

import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import environ

from allocator_service.settings.environment import Environment

_STATEMENT_TIMEOUT_MS = {
    "web": 5_000,
    "worker": 60_000,
    "backtests": 60_000,
    "sender": 60_000,
}
_LOCK_TIMEOUT_MS = 3_000
STANDBY = "standby"
# A request that finds no connection to the standby within this time goes to the primary server.
_STANDBY_SECONDS = 1
# A host that vanishes closes no connection. Each end asks the other: PostgreSQL lets go of what its
# sessions locked, and a process notices that a server is gone, after some 20 s instead of hours.
_SERVER_ASKS = {
    "tcp_keepalives_idle": 5,
    "tcp_keepalives_interval": 5,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_CLIENT_ASKS = {
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_HOST = re.compile(r"(?P<host>\[.*\]|[^:]*)(?::(?P<port>[0-9]*))?")
# Only cursors that leave their parameters to the server prepare at all: `core.rows.only_row`.
_PREPARED_AFTER = 5


def time_limits(environment: Environment) -> dict[str, int]:
    """Return PostgreSQL's settings of a process that may not wait for long, in milliseconds."""
    limit = _STATEMENT_TIMEOUT_MS.get(environment.process)
    return {} if limit is None else {"statement_timeout": limit, "lock_timeout": _LOCK_TIMEOUT_MS}


def uses_pooler(environment: Environment) -> bool:
    """Return whether the process reaches PostgreSQL through a pooler of transactions."""
    return environment.process == "web" and environment.web_database_url != environment.database_url


def databases(environment: Environment) -> dict[str, dict[str, Any]]:
    """Return Django's databases, of which a web process may have a standby."""
    found = {"default": database(environment)}
    if environment.process == "web" and environment.read_database_url:
        address = environment.read_database_url
        direct = replace(environment, database_url=address, web_database_url=address)
        found[STANDBY] = database(direct)
        found[STANDBY]["OPTIONS"]["pool"]["timeout"] = _STANDBY_SECONDS
    return found


def database(environment: Environment) -> dict[str, Any]:
    """Return Django's database settings for the process that asks.

    Through a pooler a session lasts as long as a transaction. The pooler then sets the time limits, and
    nothing is prepared.
    """
    is_pooled = uses_pooler(environment)
    settings = _address(environment.web_database_url if is_pooled else environment.database_url)
    options: dict[str, Any] = {
        **_CLIENT_ASKS,
        **settings.get("OPTIONS", {}),  # such as sslmode
        "application_name": f"allocator-{environment.process}",
        "prepare_threshold": None if is_pooled else _PREPARED_AFTER,
    }
    if not is_pooled:
        given = [options["options"]] if "options" in options else []
        ours = _SERVER_ASKS | time_limits(environment)
        chosen = [f"-c {name}={value}" for name, value in ours.items()]
        options["options"] = " ".join(given + chosen)
    if environment.process == "web":
        options["pool"] = {"min_size": 1, "max_size": 6, "timeout": 3}
    else:
        settings["CONN_MAX_AGE"] = None
    # A connection that PostgreSQL has ended is replaced before a request or a task meets it.
    settings["CONN_HEALTH_CHECKS"] = True
    settings["DISABLE_SERVER_SIDE_CURSORS"] = is_pooled
    settings["OPTIONS"] = options
    return settings


def _address(url: str) -> dict[str, Any]:
    """Return Django's settings for the address of a database."""
    settings: dict[str, Any] = environ.Env.db_url_config(url)
    settings["ENGINE"] = "django.db.backends.postgresql"
    settings["HOST"] = unquote(settings["HOST"])  # a socket's folder is percent-encoded in a URL
    hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
    if len(hosts) > 1:
        # Each host has its own port: with the one of the last for all, a failover would find no server.
        parts = [_HOST.fullmatch(host) for host in hosts]
        settings["HOST"] = ",".join(unquote(part["host"].strip("[]")) for part in parts if part)
        settings["PORT"] = ",".join(part["port"] or "" for part in parts if part)
    return settings
