"""The only reader of the process environment. `.env.example` documents every variable."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

_env = environ.Env()


_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class OidcProvider:
    """An OpenID Connect provider, with the claims that count here.

    `name` stands on the button. `groups_claim` is the claim with a person's groups: its name, or the
    names from the outermost object to it, with dots between. An empty group gives no one the role. A
    group of `pool_operator_prefix` and a pool's slug makes operators of that pool.
    """

    issuer: str
    client_id: str
    client_secret: str
    name: str
    scopes: list[str]
    groups_claim: str
    operator_group: str
    auditor_group: str
    pool_operator_prefix: str = ""


@dataclass(frozen=True)
class MailServer:
    """A mail server and the texts that mails need.

    `backend` are Django's `EMAIL_` settings, `sender` is the address in `From`. Links in mails begin
    with `public_url`.
    """

    backend: dict[str, Any]
    sender: str
    public_url: str


@dataclass(frozen=True)
class Environment:
    """The settings of a deployment. All others are fixed in the code."""

    secret_key: str
    debug: bool
    allowed_hosts: list[str]
    csrf_trusted_origins: list[str]
    database_url: str
    migration_database_url: str
    web_database_url: str
    read_database_url: str
    redis_url: str
    metrics_token: str
    log_level: str
    process: str
    secure_proxy: bool
    throttle_rate: float
    throttle_burst: int
    evaluations_at_once: int
    backtests_open: int
    run_retention_days: int
    event_retention_days: int
    placement_rows: bool | None
    clock_file: str
    static_root: str
    ledger_archive_dir: str
    trusted_proxies: list[IPv4Network | IPv6Network]
    pulse_file: str
    notify_socket: str
    worker_silence_seconds: float
    webhook_allowed_networks: list[IPv4Network | IPv6Network]
    oidc: OidcProvider | None
    mail: MailServer | None


def read_environment(*, secret_key: str | None = None) -> Environment:
    """Read and check every variable.

    `secret_key` is the default for local use and tests only. Raises
    `django.core.exceptions.ImproperlyConfigured` naming the variable that is missing.
    """
    database_url = _env.str("DATABASE_URL")
    return Environment(
        secret_key=_env.str("SECRET_KEY")
        if secret_key is None
        else _env.str("SECRET_KEY", secret_key),
        debug=_env.bool("DEBUG", False),
        allowed_hosts=_env.list("ALLOWED_HOSTS", default=[]),
        csrf_trusted_origins=_env.list("CSRF_TRUSTED_ORIGINS", default=[]),
        database_url=database_url,
        migration_database_url=_env.str("MIGRATION_DATABASE_URL", database_url),
        web_database_url=_env.str("WEB_DATABASE_URL", "") or database_url,
        read_database_url=_env.str("READ_DATABASE_URL", ""),
        redis_url=_env.str("REDIS_URL"),
        metrics_token=_env.str("METRICS_TOKEN", ""),
        log_level=_env.str("LOG_LEVEL", "INFO"),
        process=_env.str("ALLOCATOR_PROCESS", "manage"),
        secure_proxy=_env.bool("SECURE_PROXY", False),
        throttle_rate=_env.float("THROTTLE_RATE", 50.0),
        throttle_burst=_env.int("THROTTLE_BURST", 200),
        evaluations_at_once=_from_one("EVALUATIONS_AT_ONCE", _env.int("EVALUATIONS_AT_ONCE", 2)),
        backtests_open=_from_one("BACKTESTS_OPEN", _env.int("BACKTESTS_OPEN", 3)),
        run_retention_days=_from_one("RUN_RETENTION_DAYS", _env.int("RUN_RETENTION_DAYS", 90)),
        event_retention_days=_from_one(
            "EVENT_RETENTION_DAYS", _env.int("EVENT_RETENTION_DAYS", 90)
        ),
        placement_rows=_placement_rows(_env.str("PLACEMENT_ROWS", "")),
        clock_file=_env.str("CLOCK_FILE", ""),
        static_root=_env.str("STATIC_ROOT", ""),
        ledger_archive_dir=_env.str("LEDGER_ARCHIVE_DIR", ""),
        trusted_proxies=_networks("TRUSTED_PROXIES", _env.list("TRUSTED_PROXIES", default=[])),
        pulse_file=_env.str("PULSE_FILE", ""),
        notify_socket=_env.str("NOTIFY_SOCKET", ""),
        worker_silence_seconds=_env.float("WORKER_SILENCE_SECONDS", 30.0),
        webhook_allowed_networks=_networks(
            "WEBHOOK_ALLOWED_NETWORKS", _env.list("WEBHOOK_ALLOWED_NETWORKS", default=[])
        ),
        oidc=_oidc_provider(),
        mail=_mail(),
    )


def _placement_rows(value: str) -> bool | None:
    """Read whether placements are stored as rows, None where the database decides.

    A misspelt value that counted as false would make decisions that the release before cannot read.
    """
    known = {"": None, "true": True, "false": False}
    if value.lower() not in known:
        raise ImproperlyConfigured(f"PLACEMENT_ROWS is {value}; it must be true, false or empty.")
    return known[value.lower()]


def _oidc_provider() -> OidcProvider | None:
    """Return the provider, if there is one.

    It must have a secret, and TLS unless it is on this machine.
    """
    issuer = _env.str("ALLOCATOR_OIDC_ISSUER", "")
    if not issuer:
        return None
    parts = urlsplit(issuer)
    if parts.scheme != "https" and (parts.scheme, parts.hostname in _LOOPBACK) != ("http", True):
        raise ImproperlyConfigured(
            f"ALLOCATOR_OIDC_ISSUER is {issuer}; it must begin with https://."
        )
    found = OidcProvider(
        issuer=issuer,
        client_id=_env.str("ALLOCATOR_OIDC_CLIENT_ID", ""),
        client_secret=_secret(
            _env.str("ALLOCATOR_OIDC_CLIENT_SECRET", ""),
            _env.str("ALLOCATOR_OIDC_CLIENT_SECRET_FILE", ""),
        ),
        name=_env.str("ALLOCATOR_OIDC_NAME", "") or str(parts.hostname),
        scopes=list(
            dict.fromkeys(["openid", *_env.str("ALLOCATOR_OIDC_SCOPES", "profile").split()])
        ),
        groups_claim=_env.str("ALLOCATOR_OIDC_GROUPS_CLAIM", "") or "groups",
        operator_group=_env.str("ALLOCATOR_OIDC_OPERATOR_GROUP", ""),
        auditor_group=_env.str("ALLOCATOR_OIDC_AUDITOR_GROUP", ""),
        pool_operator_prefix=_env.str("ALLOCATOR_OIDC_POOL_OPERATOR_PREFIX", ""),
    )
    if not found.client_id or not found.client_secret:
        raise ImproperlyConfigured(
            "ALLOCATOR_OIDC_ISSUER is set: ALLOCATOR_OIDC_CLIENT_ID and ALLOCATOR_OIDC_CLIENT_SECRET,"
            " or ALLOCATOR_OIDC_CLIENT_SECRET_FILE with the secret in a file, are needed as well."
        )
    return found


def _mail() -> MailServer | None:
    """Return the server and texts of mails, or None if none are sent."""
    if not _env.str("EMAIL_URL", ""):
        return None
    sender, public_url = _env.str("EMAIL_FROM", ""), _env.str("PUBLIC_URL", "").rstrip("/")
    if "@" not in sender or not urlsplit(public_url).hostname:
        raise ImproperlyConfigured(
            "EMAIL_URL is set: EMAIL_FROM, such as allocation@example.org, and PUBLIC_URL, the address"
            " of this service such as https://allocation.example.org, are needed as well."
        )
    return MailServer(dict(_env.email_url("EMAIL_URL")), sender, public_url)


def _secret(text: str, file: str) -> str:
    """Return the secret itself, or the content of its file."""
    if text or not file:
        return text
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ImproperlyConfigured(f"ALLOCATOR_OIDC_CLIENT_SECRET_FILE: {error}") from error


def _from_one(variable: str, value: int) -> int:
    if value < 1:
        raise ImproperlyConfigured(f"{variable} is {value}; it must be a whole number from 1.")
    return value


def _networks(variable: str, texts: list[str]) -> list[IPv4Network | IPv6Network]:
    try:
        return [ip_network(text) for text in texts]
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{variable} names networks, separated by commas, such as 10.0.0.0/8: {error}."
        ) from error
