"""Hypothetical changes to the evaluation document of a pool's live state.

The shape, all parts optional::

    {"policy": {"name", "mode", "options"}, "weights": "explicit" | "contribution",
     "own_servers", "count": "total" | "above",
     "groups": [{"group", "parent", "weight", "tier", "guarantee", "limit"}],
     "members": [{"tenant", "weight", "best_effort", "group", "tier",
                  "guarantee", "limit", "lend", "own_servers"}],
     "servers": {"add": [{"name", "capacity", "count", "labels", "contributed_by"}],
                 "drain": [id], "retire": [id]},
     "workloads": {"submit": [{"tenant", "name", "demand", "pieces", "per_server", "together",
                               "at_least", "tasks", "priority", "server_selector", "limit"}],
                   "change": [{"id", "demand", "pieces", "per_server", "together", "at_least",
                               "tasks", "priority", "server_selector", "limit"}],
                   "withdraw": [id]}}

Of `pieces`, `per_server`, `together` and `at_least`, a change keeps those that it leaves out. Empty
`pieces` clear `per_server` and `together`. The demand is the sum of the pieces.
A `limit`, `guarantee` or `lend` replaces those in force: [{"where", "amount"}]. Quantities are as
everywhere in the interface. Errors carry JSON pointers into `changes`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.budgets import with_budgets
from allocator_service.allocation.runs.document_parts import (
    document_gang,
    document_number,
    document_quantities,
    in_one_cluster,
)
from allocator_service.allocation.runs.placement_dates import keeps_tasks, task_shape
from allocator_service.allocation.runs.snapshots import PoolState
from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource, vector_from
from allocator_service.pools.clusters import CLUSTER_LABEL
from allocator_service.pools.guarantees import AmountChange
from allocator_service.pools.limits import Limit
from allocator_service.workloads.gangs import (
    GANG,
    Gang,
    demand_read,
    gang_check,
    gang_read,
    start_check,
)
from policies import policy_named, without_deficits

_WORKLOAD_FIELDS = ("tasks", "priority", "server_selector")
_MEMBER_FIELDS = ("weight", "best_effort", "group", "tier", "own_servers")
_GROUP_FIELDS = ("parent", "weight", "tier")


@dataclass(frozen=True)
class WhatIf:
    """A changed document with the ids of its workloads in its order, None for submitted ones.

    `amounts` are the changes of guarantees, limits and parents, to compare with those of the pool.
    """

    document: Mapping[str, Any]
    workload_ids: Sequence[UUID | None]
    amounts: Sequence[AmountChange] = ()


def with_changes(
    state: PoolState, changes: Mapping[str, Any], *, resources: Sequence[Resource]
) -> WhatIf:
    """Return the state's document with the changes made, and leave the given state as it is.

    Raises `Unacceptable` for a reference to something that is not in the pool, and for values that the
    pool would reject.
    """
    editor = _Editor(state, resources)
    # In the order of `parts`: what pieces may use depends on the servers.
    for part, edit in editor.parts().items():
        if part in changes:
            edit(changes[part])
    return editor.what_if()


class _Editor:
    def __init__(self, state: PoolState, resources: Sequence[Resource]) -> None:
        self._state = state
        self._resources = resources
        # Exhausted budgets have their effect on what is changed, too: it is added at the end.
        self._document = dict(state.settings)
        self._servers = [dict(server) for server in state.settings["servers"]]
        self._names = [dict(zip(g.ids, g.names, strict=True)) for g in state.groups]
        self._running: list[dict[str, Any]] = list(state.settings.get("running", []))
        self._kept: list[dict[str, Any]] = list(state.settings.get("kept", []))
        self._groups = {group["name"]: dict(group) for group in state.settings.get("groups", [])}
        self._tenants = {tenant["name"]: dict(tenant) for tenant in state.settings["tenants"]}
        self._changed_amounts: list[AmountChange] = []
        self._workloads: list[tuple[UUID | None, dict[str, Any]]] = [
            (id_, dict(workload))
            for id_, workload in zip(state.workload_ids, state.settings["workloads"], strict=True)
        ]

    def parts(self) -> dict[str, Callable[[Any], None]]:
        return {
            "policy": self._policy,
            "weights": self._weights,
            "own_servers": self._own_servers,
            "count": self._count,
            "groups": self._change_groups,
            "members": self._members,
            "servers": self._change_servers,
            "workloads": self._change_workloads,
        }

    def what_if(self) -> WhatIf:
        self._document["servers"] = [server for server in self._servers if server["count"] > 0]
        if self._groups:
            self._document["groups"] = list(self._groups.values())
        self._document["tenants"] = list(self._tenants.values())
        self._document["workloads"] = [workload for _, workload in self._workloads]
        if self._running:
            self._document["running"] = self._running
        # The settings hold those of the live state, which changes may have ended.
        self._document.pop("kept", None)
        if self._kept and keeps_tasks(self._document):
            self._document["kept"] = self._kept
        document: Mapping[str, Any] = with_budgets(self._document, self._state.budgets)
        if not policy_named(document["policy"]["name"]).time_sharing:
            # Deficits are of a schedule, which a policy without turns does not have.
            document = without_deficits(document)
        return WhatIf(document, [id_ for id_, _ in self._workloads], self._changed_amounts)

    def _policy(self, policy: Mapping[str, Any]) -> None:
        try:
            choice = policy_choose(policy["name"], policy.get("mode"), policy.get("options"))
        except Unacceptable as error:
            raise Unacceptable(error.detail, code=error.code, pointer="/policy") from error
        self._document["policy"] = {
            "name": choice.name,
            "mode": choice.mode,
            "options": choice.options,
        }

    def _weights(self, weights: str) -> None:
        self._document["weights"] = weights

    def _own_servers(self, is_so: bool) -> None:
        self._document["own_servers"] = is_so

    def _count(self, count: str) -> None:
        self._document["count"] = count

    def _members(self, members: Sequence[Mapping[str, Any]]) -> None:
        for position, member in enumerate(members):
            tenant = self._tenant(member["tenant"], f"/members/{position}/tenant")
            self._refuse_unknown_group(member.get("group"), f"/members/{position}/group")
            tenant.update({key: member[key] for key in _MEMBER_FIELDS if key in member})
            where = f"/members/{position}"
            given = {
                kind: self._amounts(kind, tenant, member, where)
                for kind in ("guarantee", "limit", "lend")
            }
            self._changed_amounts.append(
                AmountChange(
                    True,
                    member["tenant"],
                    member.get("group"),
                    given["guarantee"],
                    given["limit"],
                    is_moved="group" in member,
                    pointer=where,
                )
            )

    def _change_groups(self, groups: Sequence[Mapping[str, Any]]) -> None:
        for position, change in enumerate(groups):
            where = f"/groups/{position}"
            self._refuse_unknown_group(change["group"], f"{where}/group")
            self._refuse_unknown_group(change.get("parent"), f"{where}/parent")
            group = self._groups[change["group"]]
            group.update({key: change[key] for key in _GROUP_FIELDS if key in change})
            self._changed_amounts.append(
                AmountChange(
                    False,
                    change["group"],
                    change.get("parent"),
                    self._amounts("guarantee", group, change, where),
                    self._amounts("limit", group, change, where),
                    is_moved="parent" in change,
                    pointer=where,
                )
            )

    def _refuse_unknown_group(self, slug: str | None, pointer: str) -> None:
        if slug is not None and slug not in self._groups:
            raise Unacceptable(
                f'The pool has no group "{slug}".', code="group.unknown", pointer=pointer
            )

    def _tenant(self, slug: str, pointer: str) -> dict[str, Any]:
        if slug not in self._tenants:
            raise Unacceptable(
                f'The pool has no member "{slug}".', code="tenant.unknown", pointer=pointer
            )
        return self._tenants[slug]

    def _change_servers(self, servers: Mapping[str, Any]) -> None:
        for position, server in enumerate(servers.get("add", [])):
            where = f"/servers/add/{position}"
            if server.get("contributed_by") is not None:
                self._tenant(server["contributed_by"], f"{where}/contributed_by")
            self._servers.append(
                {
                    # Names in a document are unique, and the pool may have a server of this one.
                    "name": f"{server['name']} (added {position + 1})",
                    "capacity": self._quantities(server["capacity"], f"{where}/capacity"),
                    "count": server.get("count", 1),
                    "labels": server.get("labels", {}),
                    "contributed_by": server.get("contributed_by"),
                }
            )
        for action in ("drain", "retire"):
            for position, id_ in enumerate(servers.get(action, [])):
                self._take_server(str(id_), action, f"/servers/{action}/{position}")

    def _take_server(self, id_: str, action: str, pointer: str) -> None:
        """Take a server out of its group, or make a group of its own for one that drains."""
        position = next((at for at, names in enumerate(self._names) if id_ in names), None)
        if position is None:
            raise Unacceptable(
                "The pool has no such server.", code="server.unknown", pointer=pointer
            )
        group, names = self._servers[position], self._names[position]
        at = list(names).index(id_)
        # Tasks know their servers by position in a group, in which those behind this one move up.
        self._running = _running_without(self._running, group["name"], at)
        self._kept = _running_without(self._kept, group["name"], at)
        name = names.pop(id_)
        group["count"] -= 1
        if action == "drain":
            self._servers.append(
                {**group, "name": f"{name} (draining)", "count": 1, "draining": True}
            )

    def _change_workloads(self, workloads: Mapping[str, Any]) -> None:
        for position, change in enumerate(workloads.get("change", [])):
            where = f"/workloads/change/{position}"
            workload = self._workload(change["id"], f"{where}/id")[1]
            shape = task_shape(workload)
            if any(key in change for key in ("demand", *GANG)):
                changed = self._changed_gang(workload, change, where)
                for key in GANG:
                    workload.pop(key, None)
                workload.update(changed)
            workload.update({key: change[key] for key in _WORKLOAD_FIELDS if key in change})
            self._amounts("limit", workload, change, where)
            # Otherwise a task could keep its server with a larger demand than it was placed with.
            if task_shape(workload) != shape:
                self._end_kept_tasks(workload)
        for position, id_ in enumerate(workloads.get("withdraw", [])):
            found = self._workload(id_, f"/workloads/withdraw/{position}")
            self._workloads.remove(found)
            self._end_kept_tasks(found[1])
        taken = {(workload["tenant"], workload["name"]) for _, workload in self._workloads}
        for position, submitted in enumerate(workloads.get("submit", [])):
            where = f"/workloads/submit/{position}"
            self._tenant(submitted["tenant"], f"{where}/tenant")
            if (submitted["tenant"], submitted["name"]) in taken:
                raise Unacceptable(
                    "The tenant already has a workload of this name.",
                    code="workload.exists",
                    pointer=f"{where}/name",
                )
            # Two of the submitted workloads may have one name as well.
            taken.add((submitted["tenant"], submitted["name"]))
            workload = {
                "tenant": submitted["tenant"],
                "name": submitted["name"],
                **self._described(submitted, where),
                "tasks": submitted.get("tasks"),
                "priority": submitted.get("priority", 0),
                "server_selector": submitted.get("server_selector", {}),
            }
            self._amounts("limit", workload, submitted, where)
            self._workloads.append((None, workload))

    def _workload(self, id_: UUID, pointer: str) -> tuple[UUID | None, dict[str, Any]]:
        for workload in self._workloads:
            if workload[0] is not None and str(workload[0]) == str(id_):
                return workload
        raise Unacceptable(
            "The pool has no active workload of that name.",
            code="workload.unknown",
            pointer=pointer,
        )

    def _amounts(
        self, kind: str, node: dict[str, Any], change: Mapping[str, Any], pointer: str
    ) -> list[Limit] | None:
        """Change the amounts of a node. Returns them, None if the change leaves them."""
        if kind not in change:
            return None
        rows, limits = [], []
        for index, row in enumerate(change[kind]):
            amount = vector_from(
                row["amount"], self._resources, pointer=f"{pointer}/{kind}/{index}/amount"
            )
            named = {
                resource.name: quantity
                for resource, quantity in zip(self._resources, amount, strict=True)
                # 0 is an amount. A resource that is left out has none.
                if resource.name in row["amount"]
            }
            where = row.get("where", {})
            limits.append(Limit(named, where))
            numbers = {name: document_number(quantity) for name, quantity in named.items()}
            rows.append({"where": where, "amount": numbers})
        # Absent instead of empty, as in snapshots: equal states have equal digests.
        node.pop(kind, None)
        if rows:
            node[kind] = rows
        return limits

    def _end_kept_tasks(self, workload: Mapping[str, Any]) -> None:
        """Keep no tasks of a workload, as a decision does after such a change."""
        whose = (workload["tenant"], workload["name"])
        self._kept = [each for each in self._kept if (each["tenant"], each["workload"]) != whose]

    def _described(self, described: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the demand of a task of a new workload, and its pieces."""
        gang = gang_read(described, self._resources, where)
        gang_check(gang, where)
        start_check(gang, described.get("tasks"), where)
        demand_read(described, gang, self._resources, where)
        if not gang.pieces:
            demand = self._demand(described["demand"], f"{where}/demand")
        else:
            demand = document_quantities(gang.demand(self._resources), self._resources)
        return self._in_one_cluster(demand, gang)

    def _changed_gang(
        self, workload: Mapping[str, Any], change: Mapping[str, Any], where: str
    ) -> dict[str, Any]:
        """Return the demand of a task and its pieces, some of whose settings change."""
        present = {key: workload[key] for key in GANG if workload.get(key)}
        if present.get("together") == CLUSTER_LABEL and has_clusters(
            self._state.settings["servers"]
        ):
            # No setting of the workload: the pool adds it to all pieces, and again to the changed ones.
            del present["together"]
        # Tasks of one piece of which several start at once state their demand as a piece.
        is_single = sum(each["count"] for each in present.get("pieces", ())) == 1
        if not change.get("pieces") and (is_single or "pieces" in change):
            present = {key: present[key] for key in ("at_least",) if key in present}
        merged = {**present, **{key: change[key] for key in GANG if key in change}}
        gang = gang_read(merged, self._resources, where)
        gang_check(gang, where)
        if gang.pieces:
            given = {**merged, "demand": change.get("demand")}
            vector = demand_read(given, gang, self._resources, where)
            demand = document_quantities(vector, self._resources)
        elif "demand" in change:
            demand = self._demand(change["demand"], f"{where}/demand")
        else:
            demand = workload["demand"]
        return self._in_one_cluster(demand, gang)

    def _in_one_cluster(self, demand: dict[str, Any], gang: Gang) -> dict[str, Any]:
        """Return the demand and the pieces, which all run in one cluster, as in decisions."""
        of_gang = document_gang(demand, **gang.settings())
        of_gang = in_one_cluster(of_gang, has_clusters(self._servers))
        return {"demand": demand, **of_gang}

    def _demand(self, value: Any, pointer: str) -> dict[str, Any]:
        demand = self._quantities(value, pointer)
        if not demand:
            raise Unacceptable(
                "A task demands something: at least one resource above 0.",
                code="demand.zero",
                pointer=pointer,
            )
        return demand

    def _quantities(self, value: Any, pointer: str) -> dict[str, Any]:
        vector: list[Decimal] = vector_from(value, self._resources, pointer=pointer)
        return document_quantities(vector, self._resources)


def has_clusters(servers: Sequence[Mapping[str, Any]]) -> bool:
    return any(server["labels"].get(CLUSTER_LABEL) for server in servers)


def _running_without(
    running: Sequence[dict[str, Any]], server: str, position: int
) -> list[dict[str, Any]]:
    """Return where tasks run after the server at a position of a group has left it.

    Those behind it move up. Its tasks run on a server that is gone, which is called "".
    """
    changed = []
    for entry in running:
        start, stop = entry.get("offset", 0), entry.get("offset", 0) + entry["servers"]
        if entry["server"] != server or stop <= position:
            changed.append(entry)
            continue
        before, behind = max(0, position - start), stop - max(start, position + 1)
        if before:
            changed.append({**entry, "servers": before})
        if start <= position:
            changed.append({**entry, "server": "", "offset": 0, "servers": 1})
        if behind:
            changed.append({**entry, "offset": max(start - 1, position), "servers": behind})
    return changed
