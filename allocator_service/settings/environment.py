"""The only reader of the process environment. `.env.example` documents every variable."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

import environ
from django.core.exceptions import ImproperlyConfigured

_env = environ.Env()


@dataclass(frozen=True)
class Environment:
    """What the deployment decides; everything else is fixed in the settings."""

    secret_key: str
    debug: bool
    allowed_hosts: list[str]
    csrf_trusted_origins: list[str]
    database_url: str
    migration_database_url: str
    redis_url: str
    metrics_token: str
    log_level: str
    process: str
    secure_proxy: bool
    throttle_rate: float
    throttle_burst: int
    evaluations_at_once: int
    run_retention_days: int
    event_retention_days: int
    clock_file: str
    static_root: str
    trusted_proxies: list[IPv4Network | IPv6Network]
    pulse_file: str
    notify_socket: str
    worker_silence_seconds: float
    webhook_allowed_networks: list[IPv4Network | IPv6Network]


def read_environment(*, secret_key: str | None = None) -> Environment:
    """Read and check every variable; `secret_key` is the default for local use and tests only.

    Raises `django.core.exceptions.ImproperlyConfigured` naming the variable that is missing.
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
        redis_url=_env.str("REDIS_URL"),
        metrics_token=_env.str("METRICS_TOKEN", ""),
        log_level=_env.str("LOG_LEVEL", "INFO"),
        process=_env.str("ALLOCATOR_PROCESS", "manage"),
        secure_proxy=_env.bool("SECURE_PROXY", False),
        throttle_rate=_env.float("THROTTLE_RATE", 50.0),
        throttle_burst=_env.int("THROTTLE_BURST", 200),
        evaluations_at_once=_from_one("EVALUATIONS_AT_ONCE", _env.int("EVALUATIONS_AT_ONCE", 2)),
        run_retention_days=_from_one("RUN_RETENTION_DAYS", _env.int("RUN_RETENTION_DAYS", 90)),
        event_retention_days=_from_one(
            "EVENT_RETENTION_DAYS", _env.int("EVENT_RETENTION_DAYS", 90)
        ),
        clock_file=_env.str("CLOCK_FILE", ""),
        static_root=_env.str("STATIC_ROOT", ""),
        trusted_proxies=_networks("TRUSTED_PROXIES", _env.list("TRUSTED_PROXIES", default=[])),
        pulse_file=_env.str("PULSE_FILE", ""),
        notify_socket=_env.str("NOTIFY_SOCKET", ""),
        worker_silence_seconds=_env.float("WORKER_SILENCE_SECONDS", 30.0),
        webhook_allowed_networks=_networks(
            "WEBHOOK_ALLOWED_NETWORKS", _env.list("WEBHOOK_ALLOWED_NETWORKS", default=[])
        ),
    )


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
