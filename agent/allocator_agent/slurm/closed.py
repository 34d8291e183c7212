"""Default limit of 0 jobs for accounts and users that no round has limited yet.

Slurm passes `MaxJobs` of an account on to all below it that have none of their own. With 0 at the root
account, what is new starts nothing. Members and the accounts in `open` get a number of jobs that no
cluster runs. It never limits, and it shows which values the agent wrote.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocator_agent.changes import CHANGE, ObjectChange, Value, few
from allocator_agent.configuration import place_text
from allocator_agent.slurm.people import Key, is_writable, key_of
from allocator_agent.slurm.reading import Association

ROOT: Key = ("root", "", "")
OPEN = 1_999_999_999  # a job of Slurm has at most 9 digits


@dataclass(frozen=True)
class JobsChange:
    """An association whose MaxJobs changes. None is that of the account above it."""

    key: Key
    before: int | None
    after: int | None

    def shown(self, name: str) -> ObjectChange:
        """Return the change as a plan shows it."""
        value = Value("maxjobs", self._text(self.before), self._text(self.after))
        return ObjectChange(CHANGE, name, (value,))

    def _text(self, most: int | None) -> str:
        if most is None:
            return "unlimited" if self.key == ROOT else "inherited"
        return str(most)


@dataclass(frozen=True)
class Tree:
    """The associations of Slurm, and the accounts and users that belong to the pool.

    Attributes:
        parents: the account above each account.
        places: the accounts without others below them or, where users are members, the users.
        accounts: the places of tenants.
        groups: the accounts of the pool's groups.
        made: associations that the round makes.
        users: users are members, those of the accounts of groups included.
        joining: places that become members in this round, and may have no limit in the decision yet.
    """

    associations: Sequence[Association]
    parents: Mapping[str, str]
    places: Iterable[str]
    accounts: Mapping[str, str]
    groups: Iterable[str] = ()
    made: Iterable[Key] = ()
    users: bool = False
    joining: Container[str] = ()


def plan_closed(
    objects: Sequence[Mapping[str, Any]], tree: Tree, *, closed: bool, opened: Sequence[str]
) -> tuple[list[JobsChange], list[str]]:
    """Return the changes of MaxJobs in their order, and problems.

    `opened` are accounts that stay as they are although they are not of the pool. Without `closed`,
    what the agent has written is removed.
    """
    present = {(row.account, row.user, row.partition): row.max_jobs for row in tree.associations}
    marked = [key for key, most in present.items() if most == OPEN]
    if not closed:
        removed = [JobsChange(key, OPEN, None) for key in marked]
        # A 0 without the agent's other values is the site's own.
        ends = [JobsChange(ROOT, 0, None)] if marked and present[ROOT] == 0 else []
        return [*ends, *removed], []
    if problem := problem_of_root(tree.associations):
        return [], [problem]
    managed = _managed(objects, tree, opened)
    changes = [JobsChange(key, None, OPEN) for key in managed if present.get(key) is None]
    # Only then, so that nothing of the pool is closed on the way.
    if present[ROOT] is None:
        changes.append(JobsChange(ROOT, None, 0))
    changes += [JobsChange(key, OPEN, None) for key in marked if key not in managed]
    return changes, _problems(tree, managed, opened)


def problem_of_root(associations: Iterable[Association]) -> str:
    """Return why accounts cannot be closed, empty if they can."""
    most = next((row.max_jobs for row in associations if row.account == "root" and not row.user), 0)
    if most in (None, 0):
        return ""
    return f"account root has MaxJobs={most} of the site: new accounts are not closed"


def unknown_accounts(associations: Iterable[Association], opened: Iterable[str]) -> list[str]:
    """Return the accounts to leave as they are that Slurm does not have."""
    return sorted(set(opened) - {row.account for row in associations})


def closed_places(tree: Tree, opened: Iterable[str]) -> list[str]:
    """Return the places that only a value of their own can open, because nothing above them is open."""
    own = {
        (row.account, row.user)
        for row in tree.associations
        if not row.partition and row.max_jobs not in (None, OPEN)
        if (row.account, row.user) != ROOT[:2]
    }
    stops = {*opened, *(account for account, user in own if not user)}
    found = []
    for place in sorted(tree.places):
        account, user, _ = key_of(place)
        if (account, user) not in own and not is_below(account, stops, tree.parents):
            found.append(place)
    return found


def is_below(place: str, accounts: Container[str], parents: Mapping[str, str]) -> bool:
    """Return true for a place in one of the accounts or in an account below one."""
    above: str | None = key_of(place)[0]
    while above and above not in accounts:
        above = parents.get(above)
    return bool(above)


def _problems(tree: Tree, managed: Iterable[Key], opened: Sequence[str]) -> list[str]:
    problems = []
    if unknown := unknown_accounts(tree.associations, opened):
        problems.append(f"[slurm] open names accounts that Slurm does not have: {few(unknown)}")
    keys = set(managed)
    waiting = [
        place
        for place in closed_places(tree, opened)
        if key_of(place) not in keys and place not in tree.joining
    ]
    if waiting:
        problems.append(
            "closed, because they are neither members of the pool nor in [slurm] open:"
            f" {few(map(place_text, waiting))}"
        )
    return problems


def _managed(
    objects: Sequence[Mapping[str, Any]], tree: Tree, opened: Sequence[str]
) -> dict[Key, None]:
    """Return the associations that get a value of their own, in order.

    They are members with a limit, users of accounts that have others below them, and the accounts that
    stay as they are.
    """
    members = {
        key_of(tree.accounts[item["tenant"]])
        for item in objects
        if item["kind"] == "account" and item["tenant"] in tree.accounts
    }
    people = {(account, user) for account, user, _ in members if user}
    # Jobs of a parent's own users have no account that could be a member.
    with_users = {"root", *(() if tree.users else tree.groups)}
    keys = [(row.account, row.user, row.partition) for row in tree.associations]
    return {
        (account, user, partition): None
        for account, user, partition in dict.fromkeys([*keys, *tree.made])
        if (
            (account, user, partition) in members
            or (account, user) in people
            or (not user and account in opened)
            or (user and account in with_users)
        )
        and is_writable(account)
        and (not user or is_writable(user))
    }
