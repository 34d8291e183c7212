"""Limits of the accounts of groups, from those of the accounts below them in Slurm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from allocator_agent.configuration import place_text
from allocator_agent.model import Job
from allocator_agent.slurm.limit_changes import LimitChange, LimitRemoval
from allocator_agent.slurm.people import (
    WRITABLE,
    Key,
    account_of,
    place_of,
)
from allocator_agent.slurm.reading import Association
from allocator_agent.slurm.tres import units_of

Bounds = dict[str, "int | None"]  # None: without a limit


@dataclass(frozen=True)
class GroupPlan:
    """Changes of parent accounts.

    `problems` are by tenant, those of groups under "".
    """

    limits: list[LimitChange] = field(default_factory=list)
    removals: list[LimitRemoval] = field(default_factory=list)
    problems: dict[str, list[str]] = field(default_factory=dict)


def plan_groups(
    objects: Sequence[Mapping[str, Any]],
    associations: Iterable[Association],
    jobs: Sequence[Job],
    accounts: Mapping[str, str],
    names: Mapping[str, str],
    tree: Mapping[str, str],
) -> GroupPlan:
    """Plan the limits of the accounts of groups.

    `accounts` names the place of every tenant that has one without others below it, `names` that of
    every slug, and `tree` the parent of every place in Slurm.
    """
    return _Planning(objects, associations, jobs, accounts, names, tree).plan()


class _Planning:
    """One plan of groups."""

    def __init__(
        self,
        objects: Sequence[Mapping[str, Any]],
        associations: Iterable[Association],
        jobs: Sequence[Job],
        accounts: Mapping[str, str],
        names: Mapping[str, str],
        tree: Mapping[str, str],
    ) -> None:
        self._accounts, self._names, self._tree = accounts, names, tree
        rows = list(associations)
        self._rows = {row.account: row for row in rows if not row.user}
        places = {place_of(row.account, row.user): row for row in rows if not row.partition}
        self._rows |= {place: row for place, row in places.items() if place in tree}
        self._members = [item for item in objects if item["kind"] == "account"]
        self._groups = [item for item in objects if item["kind"] == "group"]
        self._removed = [item for item in objects if item["kind"] == "removed"]
        self._tenant_limits = {
            accounts[item["tenant"]]: item["limits"]
            for item in self._members
            if item["tenant"] in accounts
        }
        self._children: dict[str, list[str]] = {}
        for account, parent in tree.items():
            self._children.setdefault(parent, []).append(account)
        self._managed = {
            names[item["group"]]: item
            for item in self._groups
            if names.get(item["group"], "") in self._children and names[item["group"]] in self._rows
        }
        self._resources = sorted({name for item in objects for name in item.get("limits", ())})
        self._held: dict[str, dict[str, int]] = {}
        for job in jobs:
            if job.running:
                of = self._held.setdefault(job.account, {})
                for name in self._resources:
                    of[name] = of.get(name, 0) + units_of(job.total, name)

    def plan(self) -> GroupPlan:
        plan = GroupPlan()
        for account, item in self._managed.items():
            if not WRITABLE.fullmatch(account):
                problem = f"sacctmgr cannot write the account {account!r} of a group"
                plan.problems.setdefault("", []).append(problem)
                continue
            self._limit(plan, account, item)
        self._free(plan)
        self._compare(plan)
        return plan

    def _limit(self, plan: GroupPlan, account: str, item: Mapping[str, Any]) -> None:
        """Limit a parent to what is below it, or free it where something below has no limit."""
        row, bounds = self._rows[account], self._bounds(account)
        after = {name: most for name, most in bounds.items() if most is not None}
        key: Key = (account, "", "")
        before = {name: row.limits.get(name) for name in after}
        change = LimitChange(key, before, after, (row.fairshare, str(item["fairshare"])))
        if change.lowers or change.raises:
            plan.limits.append(change)
        free = {name: row.limits[name] for name in row.limits if bounds.get(name, 0) is None}
        if free:
            plan.removals.append(LimitRemoval(key, free, "an account below it has no limit"))

    def _bounds(self, account: str) -> Bounds:
        """Return the limits of an account, or the amounts of its jobs where those are greater.

        Jobs that run above a lowered limit must not take the room of other accounts below a parent.
        """
        held = self._held.get(account, {})
        own = self._rows[account].limits if account in self._rows else {}
        limits = self._tenant_limits.get(account)
        sums: Bounds = dict.fromkeys(self._resources, 0)
        for child in self._children.get(account, ()):
            for name, most in self._bounds(child).items():
                total = sums[name]
                sums[name] = None if total is None or most is None else total + most
        bounds: Bounds = {}
        for name in self._resources:
            most, running = sums[name], held.get(name, 0)
            if account in self._managed:
                decided = int(self._managed[account]["limits"].get(name, 0))
                bounds[name] = None if most is None else max(decided, most + running)
            elif account in self._children:
                inner = None if most is None else most + running
                bounds[name] = own.get(name, inner)
            else:
                limit = own.get(name) if limits is None else int(limits[name])
                bounds[name] = None if limit is None else max(limit, running)
        return bounds

    def _free(self, plan: GroupPlan) -> None:
        """Remove limits of accounts that are parents no more, or of groups that are none.

        Only limits of every resource of the pool are the agent's: it never writes fewer.
        """
        childless = "it has no accounts below it"
        former = "the pool has no such group any more"
        found = {
            self._names.get(item["group"], ""): reason
            for items, reason in ((self._groups, childless), (self._removed, former))
            for item in items
        }
        for account, reason in found.items():
            row = self._rows.get(account)
            if row is None or account in self._managed or account in self._tenant_limits:
                continue
            limits = {name: most for name, most in row.limits.items() if name in self._resources}
            if len(limits) == len(self._resources) and WRITABLE.fullmatch(account):
                plan.removals.append(LimitRemoval((account, "", ""), limits, reason))

    def _compare(self, plan: GroupPlan) -> None:
        """State where Slurm's tree is not the pool's."""
        groups = {
            self._names[item["group"]] for item in self._groups if item["group"] in self._names
        }
        for item in self._members:
            account = self._accounts.get(item["tenant"]) or self._names.get(item["tenant"])
            if account is None or "group" not in item:
                continue
            if account in self._managed:
                problem = f"account {account} is that of a group: end its membership of the pool"
            else:
                problem = self._misplaced(account, item["group"], groups)
            if problem:
                plan.problems.setdefault(item["tenant"], []).append(problem)
        for account, item in self._managed.items():
            problem = self._misplaced(account, item["parent"], groups)
            if problem:
                plan.problems.setdefault("", []).append(problem)

    def _misplaced(self, account: str, group: str | None, groups: set[str]) -> str:
        """Return the problem of an account whose nearest group above it is another than the pool's."""
        above = self._tree.get(account, "")
        while above and above not in groups:
            above = self._tree.get(above, "")
        expected = "" if group is None else self._names.get(group, "")
        if above == expected or (group is not None and not expected):
            return ""
        if account_of(account) != account:
            return (
                f"user {place_text(account)} is below {above or 'root'} in Slurm, and below"
                f" {expected or 'the pool itself'} in the pool: put the member into the group of its"
                " account"
            )
        return (
            f"account {account} is below {above or 'root'} in Slurm, and below"
            f" {expected or 'the pool itself'} in the pool: move it in one of them (sacctmgr modify"
            f" account {account} set parent={expected or 'root'})"
        )
