"""What tenants bring and want to run: one by one, in bulk, or from a scheduler's files.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Literal

from allocator_client._generated.documents.pools_and_members import ImportDocument, ManyCreated
from allocator_client._generated.documents.servers_and_workloads import (
    NodeImportRequest,
    ServerChangePatch,
    ServerDocument,
    ServerRequest,
    WorkloadChangePatch,
    WorkloadDocument,
    WorkloadImportRequest,
    WorkloadRequest,
)
from allocator_client.answers import Answer, Rows
from allocator_client.transport import Transport, path_part


class ServersAndWorkloads(Transport):
    """What tenants bring and want to run: one by one, in bulk, or from a scheduler's files."""

    def pools_imports_nodes_create(
        self, pool: str, body: NodeImportRequest, *, idempotency_key: str | None = None
    ) -> Answer[ImportDocument]:
        """Import servers from CSV, from `kubectl get nodes -o json`, or from `scontrol` or `sinfo`
        with `--json`.

        Operators and the pool's agents. Each row is matched with the present server of the same
        contributor and name, and is added, changed or left unchanged: importing the same file twice
        changes nothing. With `dry_run` the answer states what would become of every row, and nothing
        is written. When a row is refused nothing is written either (422 `import.refused`), unless
        `skip_refused` is set. A file has at most 200,000 rows (413 `import.too_many`).
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/imports/nodes/", body, idempotency_key)

    def pools_imports_workloads_create(
        self, pool: str, body: WorkloadImportRequest, *, idempotency_key: str | None = None
    ) -> Answer[ImportDocument]:
        """Import workloads from CSV, from `kubectl get pods -o json`, or from Kueue's workloads.

        Pods that start together are one task of several `pieces`, or single tasks in a pool that cannot
        run gangs.

        Operators and the pool's agents. Each row is matched with the present workload of the same
        tenant and name, and is added, changed or left unchanged: importing the same file twice
        changes nothing. With `dry_run` the answer states what would become of every row, and nothing
        is written. When a row is refused nothing is written either (422 `import.refused`), unless
        `skip_refused` is set. Tenants must exist unless `register_tenants` is set.
        """
        return self._post(
            f"/api/v1/pools/{path_part(pool)}/imports/workloads/", body, idempotency_key
        )

    def pools_servers_list(
        self,
        pool: str,
        *,
        limit: int = 1000,
        cursor: str | None = None,
        state: Literal["active", "draining", "retired"] | None = None,
        name: str | None = None,
        contributed_by: str | None = None,
    ) -> Rows[ServerDocument]:
        """List the servers of a pool, oldest first, without the retired ones unless `state=retired`
        asks for them.

        A tenant key sees the servers that the tenant contributed; operator and billing keys see
        all.

        Parameters
        ----------
        state
            All but retired ones by default.
        name
            Only servers of exactly this name.
        contributed_by
            Only servers that the tenant of this slug contributed.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/servers/",
            {
                "limit": limit,
                "cursor": cursor,
                "state": state,
                "name": name,
                "contributed_by": contributed_by,
            },
            "cursor",
        )

    def pools_servers_create(
        self,
        pool: str,
        body: ServerRequest | list[ServerRequest] | str,
        *,
        idempotency_key: str | None = None,
    ) -> Answer[ServerDocument | ManyCreated]:
        """Contribute one server, or many at once by `count`, as a JSON array or as CSV.

        A bulk request is all-or-nothing and names the failing item. An operator contributes for any
        tenant, which admits it to the pool, or for the pool itself (`contributed_by` null); a
        tenant key contributes for its own tenant. The servers take part from the next decision on.
        The service refuses a name that the contributor already uses in the pool (409
        `server.exists`), a server without capacity (422 `capacity.zero`) and more than 100,000
        servers (413 `servers.too_many`).
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/servers/", body, idempotency_key)

    def pools_servers_show(self, pool: str, server: str) -> Answer[ServerDocument]:
        """Show one server of a pool, even after it was retired.

        A tenant key sees the servers that the tenant contributed; any other id answers 404
        `server.not_found`.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/servers/{path_part(server)}/")

    def pools_servers_update(
        self,
        pool: str,
        server: str,
        body: ServerChangePatch | None = None,
        *,
        if_match: str | None = None,
    ) -> Answer[ServerDocument]:
        """Change the name, capacity or labels of a server by JSON merge patch.

        For operators and the tenant that contributed it, with `If-Match`. Capacity and labels count
        from the next decision on; what was contributed until now keeps its old capacity.
        `contributed_by` cannot change (422 `field.immutable`), nor can a retired server (409
        `server.retired`).
        """
        return self._change(
            "PATCH",
            f"/api/v1/pools/{path_part(pool)}/servers/{path_part(server)}/",
            body or {},
            if_match=if_match,
        )

    def pools_servers_retire(
        self, pool: str, server: str, *, if_match: str | None = None
    ) -> Answer[None]:
        """Retire a server, as `POST .../retire/` does, but only with `If-Match`.

        For operators and the tenant that contributed it. Its contribution ends now, and it leaves
        the capacity at the next decision. Its past contribution is kept, and `GET` still shows it
        as `retired`. Retiring a retired server changes nothing.
        """
        return self._change(
            "DELETE",
            f"/api/v1/pools/{path_part(pool)}/servers/{path_part(server)}/",
            if_match=if_match,
        )

    def pools_servers_activate_act(
        self,
        pool: str,
        server: str,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Answer[ServerDocument]:
        """Put a draining server back into the capacity from the next decision on.

        For operators and the tenant that contributed it. An active server stays as it is; a retired
        one is refused with 409 `server.retired`. `If-Match` is optional.
        """
        return self._post(
            f"/api/v1/pools/{path_part(pool)}/servers/{path_part(server)}/activate/",
            {},
            idempotency_key,
            if_match=if_match,
        )

    def pools_servers_drain_act(
        self,
        pool: str,
        server: str,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Answer[ServerDocument]:
        """Take a server out of the capacity from the next decision on.

        For operators and the tenant that contributed it. The server counts as contributed until it
        is retired, and `POST .../activate/` takes the draining back. Wait for a decision whose
        `generation` is at least the `Pool-Generation` of the answer before you stop its work.
        Draining a draining server changes nothing; a retired one is refused with 409
        `server.retired`. `If-Match` is optional.
        """
        return self._post(
            f"/api/v1/pools/{path_part(pool)}/servers/{path_part(server)}/drain/",
            {},
            idempotency_key,
            if_match=if_match,
        )

    def pools_servers_retire_act(
        self,
        pool: str,
        server: str,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Answer[ServerDocument]:
        """End the contribution of a server now and for good.

        For operators and the tenant that contributed it. The server leaves the capacity at the next
        decision, its past contribution is kept, and its name is free for another server. Retiring a
        retired server changes nothing. `If-Match` is optional. To give running tasks time to leave,
        drain it first.
        """
        return self._post(
            f"/api/v1/pools/{path_part(pool)}/servers/{path_part(server)}/retire/",
            {},
            idempotency_key,
            if_match=if_match,
        )

    def pools_workloads_list(
        self,
        pool: str,
        *,
        limit: int = 1000,
        cursor: str | None = None,
        state: Literal["active", "paused", "withdrawn"] | None = None,
        name: str | None = None,
        tenant: str | None = None,
    ) -> Rows[WorkloadDocument]:
        """List the workloads of a pool, oldest first, without the withdrawn ones unless
        `state=withdrawn` asks for them.

        A tenant key sees its own, a group key those of the members below its group, without
        withdrawn ones; operator and billing keys see those of all tenants. A workload that cannot
        run at present has the condition `unsatisfiable` with its reason.

        Parameters
        ----------
        state
            All but withdrawn ones by default.
        name
            Only workloads of exactly this name.
        tenant
            Only workloads of the tenant of this slug.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/workloads/",
            {"limit": limit, "cursor": cursor, "state": state, "name": name, "tenant": tenant},
            "cursor",
        )

    def pools_workloads_create(
        self,
        pool: str,
        body: WorkloadRequest | list[WorkloadRequest] | str,
        *,
        idempotency_key: str | None = None,
    ) -> Answer[WorkloadDocument | ManyCreated]:
        """Submit one workload, or many at once as a JSON array or as CSV.

        A bulk request is all-or-nothing and names the failing item. A tenant key submits for its
        own tenant; an operator names the `tenant`, which this admits to the pool. `demand` is that
        of one task, `tasks` how many can run at once. A task of several `pieces` runs all of them at
        once or none (422 `workload.pieces` where the pool's policy cannot). A demand that no server
        can serve now is accepted as `unsatisfiable`. The service refuses a name that the tenant
        already uses in the pool (409 `workload.exists`), a demand of nothing (422 `demand.zero`), a
        selector under a policy that sees the pool as one server (422 `policy.no_placement`) and
        more than 10,000 workloads (413 `workloads.too_many`).
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/workloads/", body, idempotency_key)

    def pools_workloads_show(self, pool: str, workload: str) -> Answer[WorkloadDocument]:
        """Show one workload, even after it was withdrawn.

        A tenant key sees its own workloads, a group key those of the members below its group, without
        withdrawn ones; any other id answers 404 `workload.not_found`.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/workloads/{path_part(workload)}/")

    def pools_workloads_update(
        self,
        pool: str,
        workload: str,
        body: WorkloadChangePatch | None = None,
        *,
        if_match: str | None = None,
    ) -> Answer[WorkloadDocument]:
        """Change demand, `tasks`, priority, selector, name or `state` of a workload by merge patch.

        For operators and the tenant itself, with `If-Match`. The change counts from the next
        decision on. `state` `paused` keeps the workload out of decisions until it is `active`
        again; `withdrawn` is final, and a withdrawn workload cannot change (409
        `workload.withdrawn`). `tenant` cannot change (422 `field.immutable`).
        """
        return self._change(
            "PATCH",
            f"/api/v1/pools/{path_part(pool)}/workloads/{path_part(workload)}/",
            body or {},
            if_match=if_match,
        )

    def pools_workloads_retire(
        self, pool: str, workload: str, *, if_match: str | None = None
    ) -> Answer[None]:
        """Withdraw a workload for good.

        For operators and the tenant itself, with `If-Match`. The next decision leaves it out. Its
        history stays, and `GET` still shows it as `withdrawn`. Withdrawing a withdrawn workload
        changes nothing.
        """
        return self._change(
            "DELETE",
            f"/api/v1/pools/{path_part(pool)}/workloads/{path_part(workload)}/",
            if_match=if_match,
        )
