"""Price plans, a month's statements, what changes them later, and budgets.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Literal

from allocator_client._generated.documents.money import (
    BankDocument,
    BudgetClustersDocument,
    BudgetDocument,
    BudgetRequest,
    BudgetRequestPatch,
    ChangedBudgetDocument,
    CloseRequest,
    CreditNoteDocument,
    CreditNoteRequest,
    FocusMetadataDocument,
    GrantRequest,
    GroupMonthDocument,
    GroupStatementDocument,
    ManifestDocument,
    MonthDocument,
    PlanDocument,
    PlanRequest,
    PlanRequestPatch,
    ReratingDocument,
    ReratingRequest,
    ReversalRequest,
    StatementDocument,
    StatementRowDocument,
)
from allocator_client.answers import Answer, Download, Rows
from allocator_client.transport import Transport, path_part


class Money(Transport):
    """Price plans, a month's statements, what changes them later, and budgets."""

    def focus_schemas_show(self, version: str) -> Answer[FocusMetadataDocument]:
        """Show the metadata of exports of a version of FOCUS.

        The schema has its columns in their order. Exports name this document in their header `Link`. A
        version that is not exported is 404 `focus_schema.not_found`.

        Parameters
        ----------
        version
            A version of FOCUS.
        """
        return self._read(f"/api/v1/focus-schemas/{path_part(version)}/")

    def pools_budgets_list(
        self, pool: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[BudgetDocument]:
        """List a pool's budgets, oldest first.

        A tenant key sees its own budgets only, a group key those of its group and of what is below it.
        Deleted budgets are not listed.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/budgets/",
            {"limit": limit, "cursor": cursor},
            "cursor",
        )

    def pools_budgets_create(
        self, pool: str, body: BudgetRequest, *, idempotency_key: str | None = None
    ) -> Answer[ChangedBudgetDocument]:
        """Give a tenant or a group a budget per period, in hours of a resource or in money.

        Operators may, and group keys below their group (403 `auth.group` for the group itself). An event
        `budget.reached` is recorded once per threshold and period. `then` gives an exhausted budget an
        effect on decisions until the period ends, and makes a new generation. A budget of money is a
        tenant's, per calendar month, without `carry` and `then` (422 `budget.money`). A node has one
        budget for the same resource and periods: a second one is 409 `budget.exists`. Where the policy
        keeps no limits, `then` cannot be `stop` (422 `policy.no_limits`). A budget of less than what is
        spent in its present period is accepted with `warnings`, which have its effect.
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/budgets/", body, idempotency_key)

    def pools_budgets_show(self, pool: str, budget: str) -> Answer[BudgetDocument]:
        """Show a budget.

        Send its `ETag` as `If-Match` to change or delete it. Budgets that the key does not see are 404
        `budget.not_found`. What is spent and left is part of the entitlements.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/budgets/{path_part(budget)}/")

    def pools_budgets_update(
        self,
        pool: str,
        budget: str,
        body: BudgetRequestPatch | None = None,
        *,
        if_match: str | None = None,
    ) -> Answer[ChangedBudgetDocument]:
        """Change the amount, thresholds, `carry` or `then` of a budget by a JSON merge patch.

        Operators may, and group keys below their group, with its `ETag` in `If-Match` (428 without it,
        412 if the budget has changed since). The change counts for the whole present period. A decision
        follows if the budget binds or bound. Node, resource and periods cannot change (422
        `field.immutable`). A threshold that was reported in the period is not reported again. An amount
        of less than what is spent is accepted with `warnings`, which have the effect.
        """
        return self._change(
            "PATCH",
            f"/api/v1/pools/{path_part(pool)}/budgets/{path_part(budget)}/",
            body or {},
            if_match=if_match,
        )

    def pools_budgets_retire(
        self, pool: str, budget: str, *, if_match: str | None = None
    ) -> Answer[None]:
        """Delete a budget, which has no effect from the next decision on.

        Operators may, and group keys below their group, with its `ETag` in `If-Match` (428 without it,
        412 if the budget has changed since). Recorded events stay. The node can then be given another
        budget of the same kind.
        """
        return self._change(
            "DELETE",
            f"/api/v1/pools/{path_part(pool)}/budgets/{path_part(budget)}/",
            if_match=if_match,
        )

    def pools_budgets_clusters_show(self, pool: str, budget: str) -> Answer[BudgetClustersDocument]:
        """Show what a budget has spent on each cluster in its present period.

        Visible to the keys that see the budget. The clusters add up to `spent` of its balance. There are
        none in a pool without clusters, before anything is used, and for a budget of money.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/budgets/{path_part(budget)}/clusters/")

    def pools_credit_notes_list(
        self, pool: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[CreditNoteDocument]:
        """List a pool's credit notes, newest first.

        A note that takes another one back has a negative `amount` and names it in `reverses`. A tenant
        key sees its own notes only. The list stays readable after the pool is retired.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/credit-notes/",
            {"limit": limit, "cursor": cursor},
            "cursor",
        )

    def pools_credit_notes_create(
        self, pool: str, body: CreditNoteRequest, *, idempotency_key: str | None = None
    ) -> Answer[CreditNoteDocument]:
        """Credit a tenant with an amount, as a line on its statement of the earliest month that is open.

        Only operators may. The amount is above 0 in whole minor units of the pool's currency (422
        `credit_note.amount`). A pool without a published price plan answers 409 `statement.no_plan`.
        Each request makes another note: send an `Idempotency-Key` to repeat one safely.
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/credit-notes/", body, idempotency_key)

    def pools_credit_notes_reverse_create(
        self,
        pool: str,
        credit_note: str,
        body: ReversalRequest,
        *,
        idempotency_key: str | None = None,
    ) -> Answer[CreditNoteDocument]:
        """Take a credit note back by a note of the opposite amount, on the open month's statement.

        Only operators may, with a `reason`. A note can be taken back once (409 `credit_note.reversed`),
        and a note that takes another one back cannot be taken back itself (409 `credit_note.reversal`):
        write a new one.
        """
        return self._post(
            f"/api/v1/pools/{path_part(pool)}/credit-notes/{path_part(credit_note)}/reverse/",
            body,
            idempotency_key,
        )

    def pools_groups_statements_list(
        self, pool: str, group: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[GroupMonthDocument]:
        """List the months in which tenants below a group have statements, oldest first.

        `billed` is the sum of their statements, null while the month is open. A group key sees its
        group and those below it; a tenant key gets 404 `group.not_found`.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/groups/{path_part(group)}/statements/",
            {"limit": limit, "cursor": cursor},
            "cursor",
        )

    def pools_groups_statements_show(
        self, pool: str, group: str, month: str
    ) -> Answer[GroupStatementDocument]:
        """Show a group's statement for a calendar month in the pool's time zone.

        It is the sum of the statements of the tenants below the group, to the last digit, then the
        groups directly below it and all of these tenants. It is closed when the pool's month is closed,
        and never changes from then on. Each statement counts as a whole by the tree at `tree_at`: the
        end of the month, or now while it is open. CSV, NDJSON and Parquet are the tenants, HTML is a
        page to print, and PDF a file of at most 2,000 lines (413 `statement.pdf_too_large`). A group
        key sees groups that were its own or below at `tree_at`; a tenant key gets 404
        `group.not_found`. A month before the first price plan or in the future is 404
        `statement.not_found`.

        Parameters
        ----------
        month
            A calendar month in the pool's time zone.
        """
        return self._read(
            f"/api/v1/pools/{path_part(pool)}/groups/{path_part(group)}/statements/{path_part(month)}/"
        )

    def pools_groups_statements_show_as(
        self,
        pool: str,
        group: str,
        month: str,
        *,
        format: Literal["csv", "ndjson", "html", "parquet", "pdf"],
    ) -> Download:
        """`pools_groups_statements_show` as a file."""
        return self._file(
            f"/api/v1/pools/{path_part(pool)}/groups/{path_part(group)}/statements/{path_part(month)}/",
            {"format": format},
        )

    def pools_months_show(self, pool: str, month: str) -> Answer[MonthDocument]:
        """Show a pool's month, with its accounts, whose sum is 0, and what it still lacks to be closed.

        An open month is computed each time it is read, and `missing` names what would refuse its
        closing now; a closed one is the stored document. Only operator and billing keys may read it: a
        tenant key gets 404 `statement.not_found`, as does every key for a month before the first price
        plan or in the future.

        Parameters
        ----------
        month
            A calendar month in the pool's time zone.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/months/{path_part(month)}/")

    def pools_months_entries_export(
        self, pool: str, month: str, *, format: Literal["csv", "ndjson", "parquet"]
    ) -> Download:
        """Export exactly the ledger entries that a closed month was made from, in their sealed order.

        For operator and billing keys the NDJSON has the SHA-256 that the month's manifest names. A
        tenant key gets its own entries only, without `sequence` and `digest`. A month that is open is
        404 `statement.not_found`; while four exports are running, the answer is 503 `export.busy` with
        `Retry-After`.

        Parameters
        ----------
        month
            A calendar month in the pool's time zone.
        """
        return self._file(
            f"/api/v1/pools/{path_part(pool)}/months/{path_part(month)}/entries/",
            {"format": format},
        )

    def pools_months_focus_export(
        self,
        pool: str,
        month: str,
        *,
        format: Literal["csv", "ndjson", "parquet"],
        version: Literal["1.2", "1.4"] | None = None,
    ) -> Download:
        """Export the lines of a closed month's statements in the columns of FOCUS.

        CSV, NDJSON and Parquet are made from the stored statements, so the rows are the same in every
        export of a release.
        The header `Link` names the schema of the columns (`rel="describedby"`). A tenant key gets its
        own lines only, with other tenants under pseudonyms. A month that is open is 404
        `statement.not_found`.

        Parameters
        ----------
        month
            A calendar month in the pool's time zone.
        version
            The version of FOCUS.
        """
        return self._file(
            f"/api/v1/pools/{path_part(pool)}/months/{path_part(month)}/focus/",
            {"version": version, "format": format},
        )

    def pools_months_manifest_show(self, pool: str, month: str) -> Answer[ManifestDocument]:
        """Show the number, the sums and a SHA-256 of the entries of a closed month.

        To verify the month, hash the bytes at `entries` and compare them with `sha256`. The manifest is
        written within minutes of the closing and is 404 `manifest.not_found` until then; a month that
        is open is 404 `statement.not_found`. Only operator and billing keys may read it: a tenant key
        gets 404.

        Parameters
        ----------
        month
            A calendar month in the pool's time zone.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/months/{path_part(month)}/manifest/")

    def pools_reratings_list(
        self, pool: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[ReratingDocument]:
        """List a pool's reratings, newest first, each with what it changed for each tenant.

        A tenant key gets 403 `auth.scope`: only operator and billing keys may read the list.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/reratings/",
            {"limit": limit, "cursor": cursor},
            "cursor",
        )

    def pools_reratings_create(
        self, pool: str, body: ReratingRequest, *, idempotency_key: str | None = None
    ) -> Answer[ReratingDocument]:
        """Apply a draft of a price plan to months that are closed.

        Only operators may. Each of those months is rated again, with the draft's prices for its
        time, and the difference is posted per line on the open month's statements; closed
        statements stay as they are. The draft's commitments are not applied. Send `"dry_run": true`
        first: the answer is 200 with the changes, and nothing is stored. The draft must begin and
        end within closed months (422 `rerating.interval`) and must not be published (409
        `plan.published`). Applying the same plan again, dry or not, changes nothing and answers 200
        with the first rerating.
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/reratings/", body, idempotency_key)

    def pools_service_units_list(
        self, pool: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[BankDocument]:
        """List the pool's banks of service units, with amounts granted and used and the balance.

        A tenant has a bank from its first grant on. `used` is quantity × seconds × weight of all that
        it used since, by the `unit_weights` of the price plans. A tenant key sees its own bank only.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/service-units/",
            {"limit": limit, "cursor": cursor},
            "cursor",
        )

    def pools_service_units_create(
        self, pool: str, body: GrantRequest, *, idempotency_key: str | None = None
    ) -> Answer[BankDocument]:
        """Grant service units to a tenant's bank, and open the bank with the first grant.

        Only operators may. The units are above 0 (422 `units.amount`). A bank that has run out gives
        the event `service_units.exhausted`, once after each grant, and makes its tenant a best-effort
        member if the price plan's `exhausted` requires it; a grant does not undo that. Each request
        grants again: send an `Idempotency-Key` to repeat one safely.
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/service-units/", body, idempotency_key)

    def pools_statements_list(
        self,
        pool: str,
        *,
        limit: int = 1000,
        cursor: str | None = None,
        month: str | None = None,
        tenant: str | None = None,
        state: Literal["open", "closed"] | None = None,
    ) -> Rows[StatementRowDocument]:
        """List a pool's statements by month and tenant, those of closed and of open months.

        Months are listed up to the present one. An open statement has `billed` null: read the statement
        itself for its lines and sums. A tenant key sees its own statements only, a group key those
        of the tenants that were below its group at the end of the month. The list stays
        readable after the pool is retired, and is empty until a price plan is published.

        Parameters
        ----------
        month
            Statements of this month only, such as 2027-03.
        tenant
            Statements of the tenant with this slug only.
        state
            Statements in this state only: `open` ones still change, `closed` ones never.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/statements/",
            {"limit": limit, "cursor": cursor, "month": month, "tenant": tenant, "state": state},
            "cursor",
        )

    def pools_statements_create(
        self, pool: str, body: CloseRequest, *, idempotency_key: str | None = None
    ) -> Answer[MonthDocument]:
        """Close a month of a pool for all its tenants at once.

        Only operators may, and it cannot be undone: the month's statements never change again, and its
        usage that is numbered later becomes an adjustment on the statement of the open month. If
        something is missing, the answer is 409 with everything that is missing in `errors`:
        `statement.no_plan`, `statement.earlier_open`, `statement.month_not_over`,
        `statement.metering_behind` or `statement.entries_pending`. Closing a closed month again answers
        200 with the same document. Each tenant gets the event `statement.closed`.
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/statements/", body, idempotency_key)

    def pools_statements_show(
        self, pool: str, month: str, tenant: str
    ) -> Answer[StatementDocument]:
        """Show a tenant's statement for a calendar month in the pool's time zone.

        An open statement is computed each time it is read; a closed one is the stored document and
        never changes. JSON is the whole statement, CSV, NDJSON and Parquet are its lines, HTML is a
        page to print, and PDF is a file to send, which states the SHA-256 of the JSON. The PDF of a
        closed statement has the same bytes until the service is upgraded, and at most 2,000 lines
        (413 `statement.pdf_too_large`). The HTML page states the present names of the tenant and the
        pool. A tenant key can read its own only, without `sequence` and with other tenants under
        pseudonyms; any other is 404 `statement.not_found`.

        Parameters
        ----------
        month
            A calendar month in the pool's time zone.
        """
        return self._read(
            f"/api/v1/pools/{path_part(pool)}/statements/{path_part(month)}/{path_part(tenant)}/"
        )

    def pools_statements_show_as(
        self,
        pool: str,
        month: str,
        tenant: str,
        *,
        format: Literal["csv", "ndjson", "html", "parquet", "pdf"],
    ) -> Download:
        """`pools_statements_show` as a file."""
        return self._file(
            f"/api/v1/pools/{path_part(pool)}/statements/{path_part(month)}/{path_part(tenant)}/",
            {"format": format},
        )

    def price_plans_list(
        self,
        *,
        limit: int = 1000,
        cursor: str | None = None,
        pool: str | None = None,
        state: Literal["draft", "published", "rerated"] | None = None,
    ) -> Rows[PlanDocument]:
        """List price plans, oldest first.

        Operator and billing keys see all of them. A tenant key sees the plans of its pools, except
        drafts; within a plan it sees only its own commitments and shares of fixed costs, and other
        owners under pseudonyms. Plans of retired pools stay in the list, because statements name them.

        Parameters
        ----------
        pool
            Plans of the pool with this slug only.
        state
            Plans in this state only; a tenant key sees no drafts.
        """
        return self._rows(
            "/api/v1/price-plans/",
            {"limit": limit, "cursor": cursor, "pool": pool, "state": state},
            "cursor",
        )

    def price_plans_create(
        self, body: PlanRequest, *, idempotency_key: str | None = None
    ) -> Answer[PlanDocument]:
        """Write a draft of a price plan for a pool.

        Only operators may. A draft changes no bill until it is published, or applied to closed months
        by a rerating, and it can be changed or deleted until then. Prices are per unit and hour in the
        pool's currency: another `currency` is refused with 409 `plan.currency`. A pool that meters
        itself takes the `increment` `exact` only (422 `plan.increment`).
        """
        return self._post("/api/v1/price-plans/", body, idempotency_key)

    def price_plans_show(self, plan: str) -> Answer[PlanDocument]:
        """Show a price plan with its rates, commitments and fixed costs.

        While it is a draft, send its `ETag` as `If-Match` to change it. A tenant key sees only its own
        commitments and shares of fixed costs, and other owners under pseudonyms; a draft, or a plan of
        a pool that it is not a member of, is 404 `price_plan.not_found` for it.
        """
        return self._read(f"/api/v1/price-plans/{path_part(plan)}/")

    def price_plans_update(
        self, plan: str, body: PlanRequestPatch | None = None, *, if_match: str | None = None
    ) -> Answer[PlanDocument]:
        """Change a draft of a price plan by a JSON merge patch.

        Only operators may, with the draft's `ETag` in `If-Match` (428 without it, 412 if the draft has
        changed since). A list such as `rates` is replaced as a whole; `pool` cannot change (422
        `field.immutable`). A plan that was published or applied by a rerating is refused with 409
        `plan.published`: write another plan.
        """
        return self._change(
            "PATCH", f"/api/v1/price-plans/{path_part(plan)}/", body or {}, if_match=if_match
        )

    def price_plans_retire(self, plan: str, *, if_match: str | None = None) -> Answer[None]:
        """Delete a draft of a price plan.

        Only operators may, with the draft's `ETag` in `If-Match` (428 without it, 412 if the draft has
        changed since). A plan that was published or applied by a rerating is refused with 409
        `plan.published`.
        """
        return self._change("DELETE", f"/api/v1/price-plans/{path_part(plan)}/", if_match=if_match)

    def price_plans_publish_act(
        self, plan: str, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> Answer[PlanDocument]:
        """Publish a draft. Its prices hold from its `from` on, and the plan can no longer be edited.

        Only operators may; `If-Match` is optional. The first published plan fixes the pool's currency
        and time zone. A last plan without an end ends where the new one begins; anything else that
        overlaps or leaves a gap is refused with 409 `plan.overlap` or `plan.gap`. A plan that begins
        before the end of the last closed month is 409 `plan.backdated` (use a rerating), one without
        rates 422 `plan.empty`. The pool's members get the event `price_plan.published`.
        """
        return self._post(
            f"/api/v1/price-plans/{path_part(plan)}/publish/",
            {},
            idempotency_key,
            if_match=if_match,
        )
