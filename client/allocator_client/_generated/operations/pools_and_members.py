"""Who pools servers: tenants, the pools they are members of, their groups and weights.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from allocator_client._generated.documents.pools_and_members import (
    AllocationHistoryDocument,
    BudgetTermsDocument,
    ChangedGroupDocument,
    ChangedMemberDocument,
    ChangedPoolDocument,
    ClustersDocument,
    GroupDocument,
    GroupImportRequest,
    GroupRequest,
    GroupRequestPatch,
    GroupTermsDocument,
    ImportDocument,
    ManyCreated,
    MemberDocument,
    MemberRequest,
    PoolDocument,
    PoolRequest,
    PoolRequestPatch,
    TenantDocument,
    TenantRequest,
    TenantRequestPatch,
)
from allocator_client.answers import Answer, Rows
from allocator_client.transport import Transport, path_part


class PoolsAndMembers(Transport):
    """Who pools servers: tenants, the pools they are members of, their groups and weights."""

    def pools_list(self, *, limit: int = 1000, cursor: str | None = None) -> Rows[PoolDocument]:
        """List the open pools, by slug.

        A tenant key sees the pools that the tenant is a member of, and a group key its group's;
        operator and billing keys see all, or the one that they are bound to. Retired pools are not
        listed.
        """
        return self._rows("/api/v1/pools/", {"limit": limit, "cursor": cursor}, "cursor")

    def pools_create(
        self, body: PoolRequest, *, idempotency_key: str | None = None
    ) -> Answer[PoolDocument]:
        """Open a pool with its resources, policy, window and money settings.

        Operators only. Required are `slug`, `name`, `resources` and `policy.name`; everything else
        has a default. `GET /policies/` lists the policies with their modes and options (422
        `policy.unknown`, `policy.mode`, `policy.options`). A slug that any pool has, even a retired
        one, is refused with 409 `pool.exists`.
        """
        return self._post("/api/v1/pools/", body, idempotency_key)

    def pools_show(self, pool: str) -> Answer[PoolDocument]:
        """Show the settings of a pool, its `version` and its `generation`, the number of its last
        change.

        A tenant key sees only pools that the tenant is a member of; any other slug answers 404
        `pool.not_found`. The `ETag` is what a change sends as `If-Match`: changes of members, servers
        and workloads, which it names too, do not make it old. Sent as `If-None-Match`, it is answered
        304 until anything in the pool changes.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/")

    def pools_update(
        self, pool: str, body: PoolRequestPatch | None = None, *, if_match: str | None = None
    ) -> Answer[ChangedPoolDocument]:
        """Change the settings of a pool by JSON merge patch.

        Operators only, with `If-Match`. Another policy, window or kind of weights counts from the
        next decision on; a different policy starts with its default mode and options unless the
        patch names them. To add a resource, send the whole list: none can be dropped and no unit
        can change (409 `in_use`). Once prices are published, currency and time zone stay (409
        `pool.money_fixed`). A change of `own_servers` or `count` is accepted with `warnings` if the
        present servers cannot meet all guarantees.
        """
        return self._change(
            "PATCH", f"/api/v1/pools/{path_part(pool)}/", body or {}, if_match=if_match
        )

    def pools_retire(self, pool: str, *, if_match: str | None = None) -> Answer[None]:
        """Close a pool permanently.

        Operators only, with `If-Match`. A pool with servers that are not retired is refused with
        409 `in_use`. Afterwards the pool answers 404 and gets no further decisions; its runs,
        statements and billing report stay readable, and its slug stays taken.
        """
        return self._change("DELETE", f"/api/v1/pools/{path_part(pool)}/", if_match=if_match)

    def pools_budgets_history_list(
        self, pool: str, budget: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[BudgetTermsDocument]:
        """List the settings of a budget with their intervals, oldest first.

        Visible to the keys that see the budget. Its node, resource and periods never change.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/budgets/{path_part(budget)}/history/",
            {"limit": limit, "cursor": cursor},
            "cursor",
        )

    def pools_clusters_show(self, pool: str) -> Answer[ClustersDocument]:
        """Show the clusters of a pool with their servers, capacity and agents.

        A server is in the cluster that its label `cluster` names, or in that of the pool's slug.
        Without any such label and without an agent of a cluster the list is empty: one scheduler has
        all servers.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/clusters/")

    def pools_groups_list(
        self, pool: str, *, limit: int = 1000, cursor: str | None = None, parent: str | None = None
    ) -> Rows[GroupDocument]:
        """List the groups of a pool, by slug, with their present parent, weight and tier.

        Operator and billing keys see every group. A tenant key sees the group that its tenant
        belongs to and the groups above that one, a group key its group and those below. `parent`
        filters by the group directly above.

        Parameters
        ----------
        parent
            Only groups directly below this group.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/groups/",
            {"limit": limit, "cursor": cursor, "parent": parent},
            "cursor",
        )

    def pools_groups_create(
        self,
        pool: str,
        body: GroupRequest | list[GroupRequest] | str,
        *,
        idempotency_key: str | None = None,
    ) -> Answer[GroupDocument | ManyCreated]:
        """Create one group, or many at once as a JSON array or as CSV.

        Operators only. A bulk request is all-or-nothing, names the failing item, and may name
        parents that it creates itself, in any order. A pool has at most 10,000 groups (422
        `group.too_many`), 8 levels deep (422 `group.too_deep`). A slug that another group of the
        pool has is refused with 409 `group.exists`, a policy that does not decide by groups with
        422 `policy.no_groups`. The groups count from the next decision on.
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/groups/", body, idempotency_key)

    def pools_groups_show(self, pool: str, group: str) -> Answer[GroupDocument]:
        """Show one group of a pool.

        Its `ETag` is what a change sends as `If-Match`. A tenant key can read the groups on its
        own path, a group key its group and those below. Any other slug answers 404 `group.not_found`.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/groups/{path_part(group)}/")

    def pools_groups_update(
        self,
        pool: str,
        group: str,
        body: GroupRequestPatch | None = None,
        *,
        if_match: str | None = None,
    ) -> Answer[ChangedGroupDocument]:
        """Change the name, parent, weight, tier or limits of a group by JSON merge patch.

        With `If-Match`. A group key changes weight, tier and limits of groups below its own and nothing
        else (403 `auth.group`). A group moves with everything below it; `parent` null moves it to the
        pool itself. A parent that is the group or below it is refused with 422 `group.cycle`. Weight,
        parent, tier and limits count from the next decision on, and earlier ones are kept. The slug
        cannot change (422 `field.immutable`). A change of guarantees or own servers is accepted with
        `warnings` if the present servers cannot meet all guarantees.
        """
        return self._change(
            "PATCH",
            f"/api/v1/pools/{path_part(pool)}/groups/{path_part(group)}/",
            body or {},
            if_match=if_match,
        )

    def pools_groups_retire(
        self, pool: str, group: str, *, if_match: str | None = None
    ) -> Answer[None]:
        """Retire an empty group from the next decision on.

        Operators only, with `If-Match`. A group that members or other groups belong to is refused
        with 409 `group.not_empty`. Its history stays, and its slug is free for another group.
        """
        return self._change(
            "DELETE",
            f"/api/v1/pools/{path_part(pool)}/groups/{path_part(group)}/",
            if_match=if_match,
        )

    def pools_groups_history_list(
        self, pool: str, group: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[GroupTermsDocument]:
        """List the parents, weights and tiers of a group with their intervals, oldest first.

        Retired groups of the slug are included. A tenant key reads the history of the groups on
        its own path, a group key those of its group and below. Other parents have pseudonyms.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/groups/{path_part(group)}/history/",
            {"limit": limit, "cursor": cursor},
            "cursor",
        )

    def pools_imports_groups_create(
        self, pool: str, body: GroupImportRequest, *, idempotency_key: str | None = None
    ) -> Answer[ImportDocument]:
        """Import groups, and the members below them, from CSV or from `sacctmgr --parsable2 show
        association tree`.

        Operators only. Each row is matched by its slug with a present group or member, and is
        added, changed or left unchanged: importing the same file twice changes nothing. Only the
        tree after the import must be one, so rows may be in any order. A row below an unknown or
        refused group is refused, as are cycles and more than 8 levels. With `dry_run` the answer
        has the outcome of every row, and nothing is written. When a row is refused nothing is
        written either (422 `import.refused`), unless `skip_refused` is set. Tenants must exist
        unless `register_tenants` is set.
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/imports/groups/", body, idempotency_key)

    def pools_members_list(
        self, pool: str, *, limit: int = 1000, cursor: str | None = None, group: str | None = None
    ) -> Rows[MemberDocument]:
        """List the members of a pool with their present weights.

        Operator and billing keys see every member; `group` filters by the group that they belong
        to. A tenant key sees its own tenant; in a transparent pool it also sees the others, under
        stable pseudonyms, which groups that are not on its own path have, too. A group key sees the
        members below its group.

        Parameters
        ----------
        group
            Only members of the group of this slug.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/members/",
            {"limit": limit, "cursor": cursor, "group": group},
            "cursor",
        )

    def pools_members_show(self, pool: str, tenant: str) -> Answer[MemberDocument]:
        """Show one member of a pool, the weight it has and since when it has it.

        A tenant key can read its own tenant and, in a transparent pool, the others by their
        pseudonyms, a group key the members below its group. Any other name answers 404
        `member.not_found`.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/members/{path_part(tenant)}/")

    def pools_members_put(
        self,
        pool: str,
        tenant: str,
        body: MemberRequest | None = None,
        *,
        if_match: str | None = None,
    ) -> Answer[ChangedMemberDocument]:
        """Admit a tenant to a pool (201), or change the terms of a member (200).

        For operators. A group key may change weight, tier and limits of members below its group, and
        nothing else (403 `auth.group`). Admitting needs no `If-Match`; changing a member does (428
        `version.required`, 412 `version.stale`). A field that is left out gets its default:
        `weight` 1, `best_effort` false, `group` null (the pool itself), `tier` 0. `limit`,
        `guarantee`, `lend` and `own_servers` that are left out stay as they are. The terms count
        from the next decision on, and earlier weights are kept. A weight that is not above 0 is
        refused with 422 `weight.not_positive`; a `best_effort` member is served with what the
        others leave. A group that the pool does not have is refused with 422 `group.unknown`, a
        policy that does not decide by groups and tiers with 422 `policy.no_groups`. A change of
        guarantees, own servers or loans is accepted with `warnings` if not all guarantees can be met.
        """
        return self._change(
            "PUT",
            f"/api/v1/pools/{path_part(pool)}/members/{path_part(tenant)}/",
            body or {},
            if_match=if_match,
        )

    def pools_members_retire(
        self, pool: str, tenant: str, *, if_match: str | None = None
    ) -> Answer[None]:
        """End the membership of a tenant from the next decision on.

        Operators only, with `If-Match`. A member with servers that are not retired, or workloads
        that are not withdrawn, is refused with 409 `in_use`. Its earlier weights, runs, usage and
        statements stay; its own keys read statements only. Admitting it again continues the
        membership.
        """
        return self._change(
            "DELETE",
            f"/api/v1/pools/{path_part(pool)}/members/{path_part(tenant)}/",
            if_match=if_match,
        )

    def pools_members_allocation_history_show(
        self, pool: str, tenant: str, *, days: int | None = None
    ) -> Answer[AllocationHistoryDocument]:
        """Show what decisions gave to a member in the last `days`, and what was changed before.

        Consecutive decisions that gave it the same are one step. The causes name the member's own
        workloads, and limits of the member, its workloads and the groups above it that begin or end by
        their dates, budgets of the member and these groups that were exhausted or opened again, and
        clusters that left or returned; changes of others have their kind alone. A
        tenant key reads its own tenant; any other name answers 404 `tenant.not_found`.

        Parameters
        ----------
        days
            Length of the period.
        """
        return self._read(
            f"/api/v1/pools/{path_part(pool)}/members/{path_part(tenant)}/allocation-history/",
            {"days": days},
        )

    def tenants_list(self, *, limit: int = 1000, cursor: str | None = None) -> Rows[TenantDocument]:
        """List the tenants that are not retired, by slug.

        Operator and billing keys see all of them, a tenant key sees only its own.
        """
        return self._rows("/api/v1/tenants/", {"limit": limit, "cursor": cursor}, "cursor")

    def tenants_create(
        self, body: TenantRequest | list[TenantRequest] | str, *, idempotency_key: str | None = None
    ) -> Answer[TenantDocument | ManyCreated]:
        """Register one tenant, or many at once as a JSON array or as CSV, each under a slug that
        never changes.

        Operators only. A bulk request is all-or-nothing, names the failing item, takes at most
        10,000 tenants (413 `tenants.too_many`) and answers with the slugs of the first and the
        last. A slug that any tenant has, even a retired one, is refused with 409 `tenant.exists`. A
        new tenant is in no pool yet: admit it as a member of each pool that it is to share.
        """
        return self._post("/api/v1/tenants/", body, idempotency_key)

    def tenants_show(self, tenant: str) -> Answer[TenantDocument]:
        """Show one tenant. A change sends its `ETag` as `If-Match`.

        A tenant key can read only its own tenant; any other slug, like that of a retired tenant,
        answers 404 `tenant.not_found`.
        """
        return self._read(f"/api/v1/tenants/{path_part(tenant)}/")

    def tenants_update(
        self, tenant: str, body: TenantRequestPatch | None = None, *, if_match: str | None = None
    ) -> Answer[TenantDocument]:
        """Change the name of a tenant by JSON merge patch.

        Operators only. Send the `ETag` that you read as `If-Match`: without it the answer is 428
        `version.required`, with an old one 412 `version.stale`. The slug cannot change (422
        `field.immutable`).
        """
        return self._change(
            "PATCH", f"/api/v1/tenants/{path_part(tenant)}/", body or {}, if_match=if_match
        )

    def tenants_retire(self, tenant: str, *, if_match: str | None = None) -> Answer[None]:
        """Retire a tenant and revoke all of its keys at once.

        Operators only, with `If-Match`. A tenant with servers that are not retired or workloads
        that are not withdrawn is refused with 409 `in_use`. Its history stays, and its slug is not
        given to another tenant.
        """
        return self._change("DELETE", f"/api/v1/tenants/{path_part(tenant)}/", if_match=if_match)
