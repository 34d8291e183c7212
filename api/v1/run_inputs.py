"""Inputs and proofs of runs, as much of them as a caller may see."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from allocator_service.allocation.audit.decisions import refuse_undecided, run_proof
from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import input_of, run_get
from allocator_service.allocation.what_if.explanations import groups_above
from allocator_service.core.selecting import missing
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from api.contract.fields import uuid_or_none
from api.pseudonyms import group_name, pseudonym, tenant_name
from api.v1.run_documents import RunReader
from api.views import ContractView

_AMOUNTS = ("guarantee", "limit", "lend")


def input_for(document: dict[str, Any], *, pool: Pool, caller: Tenant | None) -> dict[str, Any]:
    """Return the input as the caller may see it, unchanged to operators and billing."""
    if caller is None:
        return document
    return _Veil(document, pool, caller).whole()


class LabelVeil:
    """Labels of servers in the input of a run, with pseudonyms for those that could name others."""

    def __init__(self, document: Mapping[str, Any], *, pool: Pool, caller: Tenant) -> None:
        self._document, self._pool, self._caller = document, pool, caller
        self._path = set(groups_above(document, caller.slug))
        # Labels that the caller uses itself reveal nothing.
        self._known = set(self._known_labels())

    def selector(self, labels: Mapping[str, Any]) -> dict[str, Any]:
        """Return labels with their values, or a selector, as the caller may know them."""
        return {
            self.label(name): [self.label(item) for item in value]
            if isinstance(value, list)
            else self.label(value)
            for name, value in labels.items()
        }

    def label(self, text: str) -> str:
        """Return a label's name or value as the caller may know it."""
        return text if text in self._known else pseudonym("label", text, pool=self._pool)

    def _known_labels(self) -> Iterable[str]:
        for server in self._document["servers"]:
            if server["contributed_by"] in (None, self._caller.slug):
                for label, value in server["labels"].items():
                    yield from (label, value)
        mine = [each for each in self._document["workloads"] if each["tenant"] == self._caller.slug]
        yield from (workload["together"] for workload in mine if workload.get("together"))
        for selector in self._known_selectors(mine):
            for label, values in selector.items():
                yield from (label, *([values] if isinstance(values, str) else values))

    def _known_selectors(self, mine: Sequence[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
        """Yield the selectors of the caller's workloads, and of amounts of its nodes and groups."""
        yield from (workload["server_selector"] for workload in mine)
        nodes = [
            *mine,
            *(each for each in self._document["tenants"] if each["name"] == self._caller.slug),
            *(each for each in self._document.get("groups", ()) if each["name"] in self._path),
        ]
        for node in nodes:
            yield from (row["where"] for kind in _AMOUNTS for row in node.get(kind, ()))


class _Veil:
    """The input of a run with pseudonyms for the tenants, servers and labels of others."""

    def __init__(self, document: dict[str, Any], pool: Pool, caller: Tenant) -> None:
        self._document, self._pool, self._caller = document, pool, caller
        self._path = set(groups_above(document, caller.slug))
        self._veil = LabelVeil(document, pool=pool, caller=caller)

    def whole(self) -> dict[str, Any]:
        names = {
            server["name"]: self._server(server)["name"] for server in self._document["servers"]
        }
        veiled = {
            **self._document,
            "servers": [self._server(server) for server in self._document["servers"]],
            "tenants": [
                {
                    **self._limited(self._grouped(tenant, "group")),
                    "name": self._tenant(tenant["name"]),
                }
                for tenant in self._document["tenants"]
            ],
            "workloads": [self._workload(workload) for workload in self._document["workloads"]],
        }
        if "groups" in veiled:
            veiled["groups"] = [
                {
                    **self._limited(self._grouped(group, "parent")),
                    "name": self._group(group["name"]),
                }
                for group in self._document["groups"]
            ]
        for part in ("running", "kept"):
            if part in veiled:
                veiled[part] = [
                    self._running(entry, names.get(entry["server"], ""))
                    for entry in self._document[part]
                ]
        if "history" in veiled:
            history = self._document["history"]
            tenants = {self._tenant(name): row for name, row in history["tenants"].items()}
            veiled["history"] = {**history, "tenants": tenants}
        return veiled

    def _grouped(self, row: dict[str, Any], field: str) -> dict[str, Any]:
        """The row with the group that `field` names, if any, as the caller may know it."""
        if row.get(field) is None:
            return row
        return {**row, field: self._group(row[field])}

    def _limited(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the row with the labels of its amounts, if any, as the caller may know them."""
        amounts = {
            kind: [{**each, "where": self._veil.selector(each["where"])} for each in row[kind]]
            for kind in _AMOUNTS
            if kind in row
        }
        return {**row, **amounts}

    def _group(self, slug: str) -> str:
        return group_name(slug, pool=self._pool, known=self._path)

    def _server(self, server: dict[str, Any]) -> dict[str, Any]:
        owner = server["contributed_by"]
        if owner in (None, self._caller.slug):
            return server
        return {
            **server,
            "name": pseudonym("server", f"{owner}:{server['name']}", pool=self._pool),
            "labels": self._veil.selector(server["labels"]),
            "contributed_by": self._tenant(owner),
        }

    def _workload(self, workload: dict[str, Any]) -> dict[str, Any]:
        owner = workload["tenant"]
        if owner == self._caller.slug:
            return workload
        together = workload.get("together")
        return {
            **self._limited(workload),
            **({"together": self._veil.label(together)} if together else {}),
            "tenant": self._tenant(owner),
            "name": self._workload_name(owner, workload["name"]),
            "server_selector": self._veil.selector(workload["server_selector"]),
        }

    def _running(self, entry: dict[str, Any], server: str) -> dict[str, Any]:
        owner = entry["tenant"]
        return {
            **entry,
            "tenant": self._tenant(owner),
            "workload": self._workload_name(owner, entry["workload"]),
            "server": server,
        }

    def _workload_name(self, owner: str, name: str) -> str:
        if owner == self._caller.slug:
            return name
        return pseudonym("workload", f"{owner}:{name}", pool=self._pool)

    def _tenant(self, slug: str) -> str:
        return tenant_name(slug, pool=self._pool, caller=self._caller)


def sees_whole(pool: Pool, tenant: Tenant | None) -> bool:
    """Return whether a caller may see what concerns all members of a pool."""
    return tenant is None or pool.transparent


def sees_whole_of(view: ContractView, pool: Pool) -> bool:
    """Return true if the caller of a view may see what concerns all members of a pool."""
    if view.caller.group is not None:
        return pool.transparent
    return sees_whole(pool, view.tenant)


def reader_of(view: ContractView, pool: Pool) -> RunReader:
    """Return what the caller of a view may see of a pool's runs. Tenants and groups see no names."""
    names = view.caller.group is None and view.tenant is None
    return RunReader(sees_whole_of(view, pool), names)


def visible_run(text: str, *, caller: Tenant | None) -> Run:
    """Return the run of an id. Raises `Missing` unless the caller may see its pool."""
    run_id = uuid_or_none(text)
    if run_id is None:
        raise missing("run.not_found")
    return run_get(run_id=run_id, tenant=caller)


def whole_run(text: str, *, caller: Tenant | None) -> Run:
    """Return the run of an id. Raises `Missing` unless the caller may see all of it."""
    run = visible_run(text, caller=caller)
    if not sees_whole(run.pool, caller):
        raise missing("run.not_found")
    return run


def proof_for(run: Run, *, caller: Tenant | None) -> dict[str, Any]:
    """Return the proof of a decision, with the names that the caller may know.

    Raises `Conflict` for a run that decided nothing, `Gone` once its input is pruned.
    """
    refuse_undecided(run)
    document = input_for(input_of(run), pool=run.pool, caller=caller)
    return run_proof(run, document)
