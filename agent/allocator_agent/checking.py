"""Checks of everything that the agent needs before its first write. Nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Protocol

from allocator_agent.changes import few
from allocator_agent.configuration import OF_USER, Configuration, place_text
from allocator_agent.errors import Refused, ServiceAway
from allocator_agent.findings import Section
from allocator_agent.model import Observation
from allocator_agent.service import Known, Service

MOST_SECONDS = 2.0  # of difference between two clocks
_NAMES = 10  # in a line
Clock = Callable[[], float]
_OPERATORS_LIST = "/api/v1/tenants/?limit=1"  # which an agent's key cannot read


class SchedulerCheck(Protocol):
    """Checks of one kind of scheduler."""

    title: str

    def run(self, section: Section, known: Known | None) -> Observation | None:
        """Add findings. Returns what the scheduler has, if it answers."""


@dataclass(frozen=True)
class _Words:
    """A scheduler's words for a tenant's place, and the command that makes one."""

    one: str
    many: str
    create: str
    has_tree: bool
    mapping: str = "accounts"


_WORDS = {
    "users": _Words(
        "user", "users", "sacctmgr -i add user USER account=ACCOUNT", True, mapping="users"
    ),
    "slurm": _Words("account", "accounts", "sacctmgr -i add account {names}", True),
    "kubernetes": _Words("namespace", "namespaces", "kubectl create namespace {name}", False),
}


def check(
    configuration: Configuration,
    path: Path,
    service: Service,
    scheduler: SchedulerCheck,
    *,
    clock: Clock = time.time,
) -> Iterator[Section]:
    """Yield the sections of a check, each as soon as it is known."""
    first = Section(f"configuration {path}")
    first.ok(
        f"agent {configuration.name} of pool {configuration.pool} for {configuration.scheduler}"
    )
    yield first
    second = Section(f"service {configuration.url}")
    known = _service(second, configuration, service, clock)
    yield second
    third = Section(scheduler.title)
    observed = scheduler.run(third, known)
    yield third
    # Without one side every member or account would seem to be missing.
    if known is not None and observed is not None:
        yield _tenants(configuration, known, observed)


def compare_clocks(section: Section, name: str, date: str, before: float, after: float) -> None:
    """Compare the clock of a `Date` header with this machine's, before and after the request."""
    try:
        seconds = parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, IndexError):
        section.note(f"the clock of {name} is unknown, because its answers have no Date header")
        return
    compare_seconds(section, name, seconds, before, after)


def compare_seconds(
    section: Section, name: str, seconds: float, before: float, after: float
) -> None:
    """Compare a clock that states whole seconds with this machine's."""
    # The other clock may be anywhere within its second, and have been read at any time in between.
    behind, ahead = before - (seconds + 1), seconds - after
    difference = max(behind, ahead, 0.0)
    direction = "behind" if behind > ahead else "ahead of"
    section.require(
        difference <= MOST_SECONDS,
        f"the clock of {name} agrees with this machine's within {MOST_SECONDS:g} s",
        f"the clock of {name} is {difference:.0f} s {direction} this machine's",
        "run NTP on both machines (chronyc tracking): reservations, reports and usage have times",
    )


def _service(
    section: Section, configuration: Configuration, service: Service, clock: Clock
) -> Known | None:
    """Check the service, its clock and the key. Returns what the pool has, if the key may see it."""
    pool = configuration.pool
    own_key = (
        f"use a key of an agent of pool {pool}:"
        f" manage.py apikey create --scope agent --pool {pool} --name {configuration.name}"
    )
    try:
        # A request of its own, because a long list would blur the time of its answer.
        before = clock()
        date = service.date()
        after = clock()
        section.ok(f"it answers, and the key sees pool {pool}")
        compare_clocks(section, "the service", date, before, after)
        known = replace(service.known(), has_clusters=service.has_clusters())
        problem = service.write_problem()
        section.require(
            not problem,
            f"the key may import into pool {pool}",
            f"the key may not write to pool {pool}: {problem}",
            own_key,
        )
        if not problem and service.may_read(_OPERATORS_LIST):
            section.note("the key may do more than an agent needs", own_key)
    except Refused as refusal:
        section.missing(f"pool {pool} cannot be read: {refusal.detail}", own_key)
    except ServiceAway as error:
        section.missing(
            str(error), "start the service, or correct [service] url and ca_file", error.exit_code
        )
    else:
        return known
    return None


def _tenants(configuration: Configuration, known: Known, observed: Observation) -> Section:
    """Compare the pool's members with the scheduler's accounts or namespaces."""
    words = _WORDS["slurm" if configuration.scheduler == "slurm" else "kubernetes"]
    of_users = configuration.slurm.users and configuration.scheduler == "slurm"
    if of_users:
        words = _WORDS["users"]
    section = Section(f"{words.many} of pool {configuration.pool}")
    accounts = configuration.by_tenant(observed.accounts)
    parents = configuration.by_tenant(observed.parents)
    members = known.members
    absent = sorted(members - accounts.keys() - parents.keys())
    remedy = (
        f"{words.create.format(names=','.join(absent[:_NAMES]), name=(absent or [''])[0])},"
        f" or name theirs under [{words.mapping}]"
    )
    if absent and known.has_clusters:
        section.note(f"members of other clusters, or without {words.one}: {few(absent)}", remedy)
    elif absent and of_users:
        section.note(
            f"members without user: {few(absent)}. A membership that an agent began ends after 30 days"
            " of absence",
            remedy,
        )
    else:
        section.require(
            not absent,
            f"each of {len(members)} members has its {words.one}" if members else "no members yet",
            f"members without {words.one}: {few(absent)}",
            remedy,
        )
    for tenant in sorted(members & parents.keys()):
        section.missing(
            f"account {parents[tenant]} has others below it, so it cannot be a member",
            f"end the membership: DELETE /api/v1/pools/{configuration.pool}/members/{tenant}/",
        )
    if twins := sorted(observed.accounts - set(accounts.values())):
        section.missing(
            f"{words.many} whose tenant has another already: {few([place_text(t) for t in twins])}",
            f"name a tenant for each under [{words.mapping}]",
        )
    outside = [
        tenant
        for tenant in sorted(accounts.keys() - members - known.groups)
        if accounts[tenant] not in observed.exempt
    ]
    if of_users:
        outside = _in_groups(section, configuration, known, accounts, outside)
    _outside(section, configuration, outside)
    _groups(section, words, known, accounts, parents)
    return section


def _in_groups(
    section: Section,
    configuration: Configuration,
    known: Known,
    accounts: Mapping[str, str],
    outside: Sequence[str],
) -> list[str]:
    """Return the users that can become members, and add the accounts of the others."""
    above = {tenant: accounts[tenant].partition(OF_USER)[0] for tenant in outside}
    without = {
        account
        for account in above.values()
        if configuration.tenant_of(account) not in known.groups
    }
    if without:
        section.missing(
            "accounts whose users cannot be members, because they are not groups:"
            f" {few(sorted(without))}",
            "import the accounts as groups of the pool",
        )
    return [tenant for tenant in outside if above[tenant] not in without]


def _outside(section: Section, configuration: Configuration, outside: Sequence[str]) -> None:
    """Add the tenants that the scheduler has and the pool has not."""
    if not outside:
        return
    if configuration.registers_tenants:
        section.ok(f"{len(outside)} become members in the first round: {few(outside)}")
    else:
        section.note(
            f"without a limit, as they are not members: {few(outside)}",
            "set [agent] register_tenants = yes, or add them to the pool",
        )


def _groups(
    section: Section,
    words: _Words,
    known: Known,
    accounts: Mapping[str, str],
    parents: Mapping[str, str],
) -> None:
    """Compare the pool's groups with the scheduler's tree, if it has one."""
    if not words.has_tree:
        return
    limited = sorted(known.groups & parents.keys())
    if limited:
        section.ok(f"accounts of groups, limited to the sum below them: {few(limited)}")
    if free := sorted(parents.keys() - known.groups - known.members):
        section.note(
            f"accounts with others below them and no limit of their own: {few(free)}",
            "import them as groups of the pool, if they are to have one",
        )
    if childless := sorted(known.groups & accounts.keys()):
        section.note(
            f"accounts of groups without accounts below them: {few(childless)}",
            "sacctmgr modify account NAME set parent=GROUP",
        )
