"""The configuration file, in INI because Python 3.9's standard library reads no better format."""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from allocator_agent.errors import Misconfigured

SCHEDULERS = ("slurm", "kueue", "kubernetes")
RECLAIM = ("none", "requeue")
QUOTAS = ("spec", "effective")
OF_USER = "|"  # between an account and its user; no name of Slurm that can be read has it
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECTIONS = {
    "service": {"url", "pool", "key_file", "ca_file", "timeout"},
    "agent": {
        *("name", "scheduler", "reclaim", "register_tenants", "gangs"),
        *("decision_wait", "usage_hours"),
    },
    "slurm": {
        *("cluster", "bin", "classes", "owner_feature", "hold", "notice_signal", "users"),
        *("closed", "open"),
    },
    "kubernetes": {"api", "token_file", "ca_file", "owner_label", "class_label", "quotas"},
    "accounts": None,  # any account, any tenant
    "users": None,  # any account/user, any tenant
}


@dataclass(frozen=True)
class SlurmOptions:
    cluster: str = ""
    bin: str = ""
    classes: bool = False
    owner_feature: str = ""
    hold: bool = True
    notice_signal: str = "CONT"  # which ends nothing that does not handle it; empty: none
    users: bool = False  # whether users of accounts are members
    closed: bool = False  # whether new accounts start no job before a round has limited them
    open: tuple[str, ...] = ()  # accounts outside of the pool that are not closed


@dataclass(frozen=True)
class KubernetesOptions:
    api: str = ""
    token_file: Path = _SERVICE_ACCOUNT / "token"
    ca_file: Path = _SERVICE_ACCOUNT / "ca.crt"
    owner_label: str = ""
    class_label: str = "partition"
    quotas: str = "spec"


@dataclass(frozen=True)
class Configuration:
    """The checked content of the configuration file."""

    url: str
    pool: str
    key: str = field(repr=False)
    name: str
    scheduler: str
    reclaim: str = "none"
    register_tenants: bool = False
    gangs: bool = True
    decision_wait: float = 5.0
    usage_hours: float = 24.0
    timeout: float = 10.0
    ca_file: str = ""
    slurm: SlurmOptions = field(default_factory=SlurmOptions)
    kubernetes: KubernetesOptions = field(default_factory=KubernetesOptions)
    accounts: dict[str, str] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)  # tenants by account/user

    @property
    def registers_tenants(self) -> bool:
        """True if accounts, or their users, become members by themselves."""
        return self.register_tenants or self.slurm.users

    @property
    def class_label(self) -> str:
        """The label of servers that names their class."""
        return self.kubernetes.class_label if self.scheduler != "slurm" else "partition"

    @property
    def quota(self) -> str:
        """The kind of quota that the service renders."""
        return "effective" if self.kubernetes.quotas == "effective" else "hard"

    def with_quotas(self, quotas: str) -> Configuration:
        """Return the configuration with quotas in the spec or in the status of Kueue's queues.

        Raises `Misconfigured` for a scheduler that has no effective quotas.
        """
        if quotas == "effective" and self.scheduler != "kueue":
            raise Misconfigured("[kubernetes] quotas = effective needs [agent] scheduler = kueue")
        return replace(self, kubernetes=replace(self.kubernetes, quotas=quotas))

    def with_reclaim(self, reclaim: str) -> Configuration:
        return replace(self, reclaim=reclaim)

    def tenant_of(self, account: str) -> str:
        """Return the tenant of an account, of a user of an account, or of a namespace.

        It is the mapped one, or the name in the letters of slugs, `physics--alice` for a user.
        """
        name, _, user = account.partition(OF_USER)
        if user:
            return self.users.get(f"{name}/{user}") or f"{self.tenant_of(name)}--{_slug(user)}"
        return self.accounts.get(account) or _slug(account)

    def by_tenant(self, accounts: Iterable[str]) -> dict[str, str]:
        """Return the account of each tenant, the first by name of several."""
        return {self.tenant_of(name): name for name in sorted(accounts, reverse=True)}


def place_text(place: str) -> str:
    """Return an account or namespace by its name, and a user of an account as `physics/alice`."""
    return place.replace(OF_USER, "/")


def _slug(name: str) -> str:
    """Return a name in the letters of slugs. The service rejects other letters."""
    return re.sub(r"[._]", "-", name.lower())


def read_configuration(path: Path) -> Configuration:
    """Return the configuration in a file. Raises `Misconfigured` with a mistake and its correction."""
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",))
    parser.optionxform = str  # type: ignore[assignment,method-assign] # accounts keep their letters
    try:
        with path.open(encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, UnicodeError, configparser.Error) as error:
        raise Misconfigured(f"{path} cannot be read: {error}") from error
    for section in parser.sections():
        known = _SECTIONS.get(section, set())
        unknown = set() if known is None else set(parser[section]) - known
        if section not in _SECTIONS or unknown:
            raise Misconfigured(
                f"{path}: [{section}] {', '.join(sorted(unknown))} is unknown;"
                f" known are {', '.join(sorted(known)) if known else ', '.join(_SECTIONS)}"
            )
    return _checked(_Reader(parser, path))


class _Reader:
    """The values of the file, or their defaults, by section and name."""

    def __init__(self, parser: configparser.ConfigParser, path: Path) -> None:
        self._parser, self.path = parser, path

    def text(self, section: str, name: str, default: str | None = "") -> str:
        value = self._parser.get(section, name, fallback=default)
        if value is None or (default is None and not value.strip()):
            raise Misconfigured(f"{self.path}: [{section}] lacks {name}")
        return value.strip()

    def yes(self, section: str, name: str, *, default: bool = False) -> bool:
        try:
            return self._parser.getboolean(section, name, fallback=default)
        except ValueError:
            raise Misconfigured(f"{self.path}: [{section}] {name} is yes or no") from None

    def number(self, section: str, name: str, default: float, *, least: float) -> float:
        text = self.text(section, name, str(default))
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) or float(text) < least:
            raise Misconfigured(f"{self.path}: [{section}] {name} is a number from {least:g} on")
        return float(text)

    def choice(self, section: str, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.text(section, name, default)
        if value not in choices:
            raise Misconfigured(f"{self.path}: [{section}] {name} is one of {', '.join(choices)}")
        return value

    def names(self, section: str, name: str) -> tuple[str, ...]:
        """Return the names in a list that is separated by commas."""
        return tuple(part.strip() for part in self.text(section, name).split(",") if part.strip())

    def file(self, section: str, name: str, default: Path) -> Path:
        return Path(self.text(section, name, str(default)))

    def mapped(self, section: str) -> dict[str, str]:
        """Return the tenants that a section names."""
        return dict(self._parser[section]) if self._parser.has_section(section) else {}


def _checked(read: _Reader) -> Configuration:
    name = read.text("agent", "name", None)
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
        raise Misconfigured(f"{read.path}: [agent] name is made of a-z, 0-9 and -, 63 at most")
    url = read.text("service", "url", None).rstrip("/")
    if not re.match(r"https?://[^/]", url):
        raise Misconfigured(f"{read.path}: [service] url begins with https:// (or http://)")
    default = KubernetesOptions()
    configuration = Configuration(
        url=url,
        pool=read.text("service", "pool", None),
        key=_key(read),
        name=name,
        scheduler=read.choice("agent", "scheduler", SCHEDULERS, "slurm"),
        reclaim=read.choice("agent", "reclaim", RECLAIM, "none"),
        register_tenants=read.yes("agent", "register_tenants"),
        gangs=read.yes("agent", "gangs", default=True),
        decision_wait=read.number("agent", "decision_wait", 5, least=0),
        usage_hours=read.number("agent", "usage_hours", 24, least=0),
        timeout=read.number("service", "timeout", 10, least=0.1),
        ca_file=read.text("service", "ca_file"),
        slurm=SlurmOptions(
            cluster=read.text("slurm", "cluster"),
            bin=read.text("slurm", "bin"),
            classes=read.yes("slurm", "classes"),
            owner_feature=read.text("slurm", "owner_feature"),
            hold=read.yes("slurm", "hold", default=True),
            notice_signal=_signal(read),
            users=read.yes("slurm", "users"),
            closed=read.yes("slurm", "closed"),
            open=read.names("slurm", "open"),
        ),
        kubernetes=KubernetesOptions(
            api=read.text("kubernetes", "api"),
            token_file=read.file("kubernetes", "token_file", default.token_file),
            ca_file=read.file("kubernetes", "ca_file", default.ca_file),
            owner_label=read.text("kubernetes", "owner_label"),
            class_label=read.text("kubernetes", "class_label", default.class_label),
        ),
        accounts=read.mapped("accounts"),
        users=read.mapped("users"),
    )
    return configuration.with_quotas(read.choice("kubernetes", "quotas", QUOTAS, default.quotas))


def _signal(read: _Reader) -> str:
    """Return the signal of jobs that get notice, empty for none."""
    name = read.text("slurm", "notice_signal", "CONT").upper()
    if not re.fullmatch(r"(SIG)?[A-Z]{3,6}[0-9]?", name) or name.endswith(("KILL", "STOP")):
        raise Misconfigured(
            f"{read.path}: [slurm] notice_signal is a signal that jobs can handle, such as USR1, or none"
        )
    return "" if name == "NONE" else name


def _key(read: _Reader) -> str:
    """Return the service's key, from a file (such as a credential of systemd) or the environment."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY", "")
    path = read.text("service", "key_file").replace("%d", folder)
    if not path:
        key = os.environ.get("ALLOCATOR_KEY", "").strip()
        if not key:
            raise Misconfigured(f"{read.path}: set [service] key_file, or ALLOCATOR_KEY")
        return key
    try:
        key = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeError) as error:
        raise Misconfigured(f"the key in {path} cannot be read: {error}") from error
    if not key:
        raise Misconfigured(f"the key file {path} is empty")
    return key
