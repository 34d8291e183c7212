"""The import of a scheduler's nodes and jobs into the service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any

from allocator_agent.changes import few
from allocator_agent.configuration import OF_USER, Configuration, place_text
from allocator_agent.errors import Misconfigured, Refused
from allocator_agent.licences import (
    licence_server,
    licence_server_name,
    not_counted_problem,
    without_licences,
)
from allocator_agent.model import Job, Node, Observation, Usage
from allocator_agent.quantities import Units, decimal_text
from allocator_agent.service import Known, Service
from allocator_agent.workload_rows import csv_text, emptied, jobs_by_workload, rows_of

MARK = "allocator-agent"  # the label of servers that an agent keeps
OWNER = "allocator-owner"  # the label of servers that names their owner
_ROWS = 5000
_WITHDRAWN = 20  # in a round
_ADMISSION = "admission"
_OTHER_CLUSTER = "cluster.other"
_NO_GANGS = "workload.pieces"


class Feed:
    """The feed of observations to the service. `problems` are the service's refusals."""

    def __init__(
        self,
        configuration: Configuration,
        service: Service,
        units: Units,
        known: Known,
        *,
        dry_run: bool,
    ) -> None:
        self._configuration, self._service, self._units = configuration, service, units
        self._known, self._dry_run = known, dry_run
        self.problems: list[str] = []
        self.lines: list[str] = []
        self.generation = 0
        self.workload_of: dict[str, tuple[str, str]] = {}  # tenant and name, by the id of a job
        self._accounts: Set[str] = frozenset()  # of members
        self._new: dict[str, str] = {}  # the group, if any, of each tenant that becomes a member
        self._places: Set[str] = frozenset()  # of members and others
        self.joining: frozenset[str] = frozenset()  # places that become members

    def send(self, observed: Observation) -> None:
        """Send servers and workloads as they are now. Others of the agent are drained or withdrawn."""
        self._places = observed.accounts
        self._accounts = self._admitted(observed)
        licences = licence_server(observed, self._configuration)
        self._nodes([*observed.nodes, *([licences] if licences else [])])
        jobs = [job for job in observed.jobs if job.account in self._accounts]
        self._workloads(jobs)

    def usage(self, usages: Iterable[Usage], source: str) -> None:
        """Send ended jobs under identities that are posted once, however often they are sent."""
        rows = [
            {
                "id": usage.id,
                "source": source,
                "tenant": self._configuration.tenant_of(usage.account),
                "start": usage.start,
                "end": usage.end,
                **{
                    f"resources.{name}": amount
                    for name, amount in self._units.to_pool(usage.amounts, up=True).items()
                },
            }
            for usage in usages
            if usage.account in self._accounts or self._has_left(usage.account)
        ]
        for at in range(0, len(rows), _ROWS):
            self._imported("usage", {"format": "csv", "content": csv_text(rows[at : at + _ROWS])})

    def _has_left(self, place: str) -> bool:
        """Return true for a user who is a member and no longer in the scheduler."""
        is_member = self._configuration.tenant_of(place) in self._known.members
        return OF_USER in place and place not in self._places and is_member

    def _admitted(self, observed: Observation) -> Set[str]:
        """Return the accounts of members. If configured, all become members before they queue."""
        accounts = self._configuration.by_tenant(observed.accounts)
        queued = {job.account for job in observed.jobs} - observed.exempt
        if above := sorted(queued & observed.parents):
            self.problems.append(
                "accounts with accounts below them have jobs of their own, which no decision limits:"
                f" {', '.join(above)}; submit them to accounts without any below"
            )
        if twins := sorted(observed.accounts - set(accounts.values())):
            self.problems.append(
                f"other accounts have the same tenants: map {', '.join(map(place_text, twins))}"
            )
        # The account of a group is no member, also before accounts are put below it.
        outside = sorted(accounts.keys() - self._known.members - self._known.groups)
        if self._configuration.registers_tenants:
            # What is to stay as it is never gets a limit.
            outside = [tenant for tenant in outside if accounts[tenant] not in observed.exempt]
            self._new = self._groups_of(outside, accounts)
            self.joining = frozenset(accounts[tenant] for tenant in self._new)
            self.lines += [f"  + member {tenant}" for tenant in self._new]
            members = accounts.keys() & self._known.members
            return {accounts[name] for name in {*self._new, *members}}
        busy = sorted(queued & {accounts[name] for name in outside})
        if busy:
            self.problems.append(f"accounts with jobs that are not members: {', '.join(busy)}")
        return {accounts[name] for name in accounts.keys() & self._known.members}

    def _groups_of(self, tenants: Sequence[str], accounts: Mapping[str, str]) -> dict[str, str]:
        """Return the group of each tenant that becomes a member, empty for an account.

        Users of accounts that are no groups of the pool are left out, which is a problem.
        """
        found: dict[str, str] = {}
        lacking: Counter[str] = Counter()
        for tenant in tenants:
            account, _, user = accounts[tenant].partition(OF_USER)
            group = self._configuration.tenant_of(account) if user else ""
            if not group or group in self._known.groups:
                found[tenant] = group
            else:
                lacking[account] += 1
        if lacking:
            self.problems.append(
                f"{sum(lacking.values())} users have no limit, because their accounts are not groups of"
                f" the pool: {few(sorted(lacking))}; import the accounts as groups"
            )
        return found

    def _nodes(self, nodes: list[Node]) -> None:
        name = self._configuration.name
        items = [node_document(node, name) for node in nodes]
        if items:
            body = {"format": "kubernetes", "content": {"items": items}, "owner_label": OWNER}
            self._imported("nodes", body)
        present = {(node.owner or None, node.name) for node in nodes}
        for server in self._known.servers:
            gone = (server["contributed_by"], server["name"]) not in present
            if server["labels"].get(MARK) == name and gone and server["state"] == "active":
                is_of_licences = server["name"] == licence_server_name(self._configuration)
                why = (
                    "it has no licences to give"
                    if is_of_licences
                    else "the cluster no longer has this node"
                )
                self.lines.append(f"  ~ server {server['name']}: drained: {why}")
                if not self._dry_run:
                    self._tried(partial(self._service.drain, server))

    def _workloads(self, jobs: list[Job]) -> None:
        """Import all changes at once, so that they are decided together.

        A workload that no job requests any more has 0 tasks from now on and is withdrawn in a later
        round, some in each: a thousand at a time would hold up the round.
        """
        name = self._configuration.name
        rows = self._workload_rows(jobs)
        rows += [self._admission(tenant, group) for tenant, group in self._new.items()]
        names = {(row["tenant"], row["name"]) for row in rows}
        gone = [
            workload
            for workload in self._known.workloads
            if workload["name"].startswith(f"{name}/")
            and (workload["tenant"], workload["name"]) not in names
        ]
        rows += [emptied(workload) for workload in gone if workload["tasks"]]
        if rows:
            self._imported("workloads", {"format": "csv", "content": csv_text(rows)})
        for workload in [each for each in gone if not each["tasks"]][:_WITHDRAWN]:
            if not workload["name"].endswith(_ADMISSION):
                self.lines.append(f"  - workload {workload['name']} of {workload['tenant']}")
            if not self._dry_run:
                withdrawn = self._tried(partial(self._service.withdraw, workload))
                self.generation = max(self.generation, withdrawn or 0)

    def _tried(self, change: Callable[[], int | None]) -> int | None:
        """Return the result of a change, None if the service refuses it, as for another cluster's."""
        try:
            return change()
        except Refused as refusal:
            self.problems.append(str(refusal))
            return None

    def _workload_rows(self, jobs: list[Job]) -> list[dict[str, str]]:
        """Return jobs as rows, those that need several nodes as gangs where the pool can run these."""
        read, places = (self._configuration, self._units), self._known.places
        gangs = self._configuration.gangs and self._known.gangs
        workloads = jobs_by_workload(jobs, *read, places=places, gangs=gangs)
        rows = rows_of(workloads, self._configuration.class_label)
        known = {(workload["tenant"], workload["name"]) for workload in self._known.workloads}
        new = [row for row in rows if "pieces" in row and (row["tenant"], row["name"]) not in known]
        if new and (why := self._refusal_of_gangs(new)):
            self.problems.append(
                f"each node of a job is a single task, because the pool cannot run gangs: {why}"
                " Set gangs = no to stop this message."
            )
            if names := sorted({name for job in jobs for name in job.licences}):
                self.problems.append(not_counted_problem(names))
                jobs = without_licences(jobs)
            workloads = jobs_by_workload(jobs, *read, places=places, gangs=False)
            rows = rows_of(workloads, self._configuration.class_label)
        self.workload_of = {
            job.id: (each.tenant, each.name)
            for each, counted in workloads.items()
            for job, _ in counted
        }
        return rows

    def _refusal_of_gangs(self, rows: list[dict[str, str]]) -> str:
        """Return the reason why the pool cannot run gangs, from an import that writes nothing."""
        body = {"format": "csv", "content": csv_text(rows), "skip_refused": True, "dry_run": True}
        body["register_tenants"] = self._configuration.registers_tenants
        try:
            report, _ = self._service.import_rows("workloads", body)
        except Refused as refusal:
            return str(refusal)
        errors = (error for row in report["rows"] for error in row["errors"])
        return next((error["detail"] for error in errors if error["code"] == _NO_GANGS), "")

    def _admission(self, tenant: str, group: str) -> dict[str, str]:
        """Return a workload of no tasks, by which a tenant becomes a member with all others at once."""
        name = f"{self._configuration.name}/{_ADMISSION}"
        row = {"tenant": tenant, "name": name, "tasks": "0", f"demand.{self._units.names[0]}": "1"}
        return {**row, "group": group} if group else row

    def _imported(self, kind: str, body: dict[str, Any]) -> None:
        body |= {
            "skip_refused": True,
            "register_tenants": self._configuration.registers_tenants,
            "dry_run": self._dry_run,
        }
        try:
            report, generation = self._service.import_rows(kind, body)
        except Refused as refusal:
            self.problems.append(f"{kind}: {refusal}")
            return
        codes = [{error["code"] for error in row["errors"]} for row in report["rows"]]
        if kind == "nodes" and codes and all(_OTHER_CLUSTER in each for each in codes):
            raise Misconfigured(
                "the key is bound to another cluster than every node here: use the key of this"
                " cluster. No limit was changed."
            )
        if kind != "usage":
            self.generation = max(self.generation, generation)
        for row in report["rows"]:
            if row["outcome"] == "refused":
                reasons = "; ".join(error["detail"] for error in row["errors"])
                self.problems.append(f"{kind}: {row['name']}: {reasons}")
            elif row["outcome"] in ("added", "changed") and not row["name"].endswith(_ADMISSION):
                sign = "+" if row["outcome"] == "added" else "~"
                owner = f" of {row['owner']}" if row["owner"] else ""
                self.lines.append(f"  {sign} {_ONE_OF[kind]} {row['name']}{owner}")


_ONE_OF = {"nodes": "server", "workloads": "workload", "usage": "usage"}


def node_document(node: Node, agent: str) -> dict[str, Any]:
    """Return a node in the form of Kubernetes, with sizes in bytes, cordoned or not.

    That form has the fields of every scheduler.
    """
    labels = {**node.labels, MARK: agent}
    if node.owner:
        labels[OWNER] = node.owner
    return {
        "metadata": {"name": node.name, "labels": labels},
        "spec": {"unschedulable": node.draining},
        "status": {
            "allocatable": {name: decimal_text(amount) for name, amount in node.capacity.items()}
        },
    }
