"""Decisions as limits of a scheduler, what its agent applied, and who has what a tenant lent.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Literal

from allocator_client._generated.documents.enforcement import (
    EnforcementDocument,
    EnforcementReport,
    EnforcementReportRequest,
    EntitlementsDocument,
    RenderingDocument,
    RetiredAgentDocument,
)
from allocator_client.answers import Answer, Download
from allocator_client.transport import Transport, path_part


class Enforcement(Transport):
    """Decisions as limits of a scheduler, what its agent applied, and who has what a tenant lent."""

    def pools_agents_retire_act(
        self, pool: str, agent: str, *, idempotency_key: str | None = None
    ) -> Answer[RetiredAgentDocument]:
        """Retire an agent whose scheduler is gone, so that it is no longer `stale`.

        Operators only. The agent must be silent for more than three of its intervals: one that
        still reports is refused with 409 `enforcement.agent_reports`. With the last agent of a
        cluster the capacity of the cluster leaves at the next decision. Retiring a retired agent
        changes nothing. An agent that reports again is present again, and so is its cluster.

        Parameters
        ----------
        agent
            The agent's name, unique in the pool.
        """
        return self._post(
            f"/api/v1/pools/{path_part(pool)}/agents/{path_part(agent)}/retire/",
            {},
            idempotency_key,
        )

    def pools_decision_renderings_show(
        self,
        pool: str,
        target: str,
        *,
        class_label: str | None = None,
        quota: Literal["hard", "soft", "effective"] | None = None,
        cluster: str | None = None,
    ) -> Answer[RenderingDocument]:
        """Render the decision in force as limits of `slurm`, `kueue`, `kubernetes`, `volcano` or `kai`.

        For operator and billing keys, because it names all tenants. JSON states per tenant what was
        decided, rendered and lost to rounding; `text/plain` (Slurm) and `application/yaml` (the
        others) are ready to be applied. Send the `ETag` as `If-None-Match` to get 304 while nothing
        has changed. With `cluster`, or a key that is bound to one, it is the part of that cluster.
        What the target cannot express is refused with 409, such as `rendering.unsupported` or
        `rendering.unit`.

        Parameters
        ----------
        target
            The scheduler whose language it is.
        class_label
            The server label whose values are the classes of servers.
        quota
            hard: never above the decision; soft (kueue, volcano, kai): what is not used is
            lent; effective (kueue): in `status.effectiveQuotas`.
        cluster
            Only what is decided on the servers of this cluster: by default of the key's.
        """
        return self._read(
            f"/api/v1/pools/{path_part(pool)}/decision/renderings/{path_part(target)}/",
            {"class_label": class_label, "quota": quota, "cluster": cluster},
        )

    def pools_decision_renderings_show_as(
        self,
        pool: str,
        target: str,
        *,
        format: Literal["txt", "yaml"],
        class_label: str | None = None,
        quota: Literal["hard", "soft", "effective"] | None = None,
        cluster: str | None = None,
    ) -> Download:
        """`pools_decision_renderings_show` as a file."""
        return self._file(
            f"/api/v1/pools/{path_part(pool)}/decision/renderings/{path_part(target)}/",
            {"class_label": class_label, "quota": quota, "cluster": cluster, "format": format},
        )

    def pools_enforcement_show(self, pool: str) -> Answer[EnforcementDocument]:
        """Show per tenant what was decided, its rendering for the scheduler, what agents report as
        enforced and used, and the drift.

        A tenant key sees its own row, and the agents without their `problems`. `enforced` and
        `used` are null where no agent reported the tenant. An agent that is silent for more than
        three of its intervals is `stale`, and its limits stay as they are. Without a decision or a
        report there are no rows; `refused` states why the decision cannot be rendered for the agent.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/enforcement/")

    def pools_enforcement_replace(
        self, pool: str, body: EnforcementReportRequest
    ) -> Answer[EnforcementReport]:
        """Store what an agent applied to its scheduler and what runs there, in place of the agent's
        last report.

        Operators and the pool's agents. Repeating the stored report changes nothing; any other
        report that is not newer by its `reported_at` is refused with 409 `enforcement.older`. The
        service also refuses a report dated more than 5 minutes ahead of its clock (422
        `enforcement.clock`), and tenants, resources or runs that the pool does not have. A key that
        is bound to a cluster reports from no other (403 `auth.cluster`), and two agents of one name
        cannot be at work in two clusters (409 `enforcement.cluster`).
        """
        return self._put(f"/api/v1/pools/{path_part(pool)}/enforcement/", body)

    def pools_entitlements_show(
        self, pool: str, *, group: str | None = None
    ) -> Answer[EntitlementsDocument]:
        """Show what each tenant is entitled to by its weight, what it has, who borrows from whom,
        and when what it lent returns.

        `definitions` explains each figure, `budgets` are the balances of a node's own budgets, and
        `cost` is what a tenant's allocation costs now; agents' keys get neither of the two. A tenant
        key sees its own row; in a transparent pool it sees all of them. To a tenant key other tenants
        always appear under pseudonyms. `group` shows the sum of a group of the decision and then its
        children, to all keys but tenants' (404 `group.not_found`); a group key gets its group, or one
        below it. Before the first decision the answer is 404 `decision.none`.

        Parameters
        ----------
        group
            This group of the decision in force only: its sum and its children.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/entitlements/", {"group": group})
