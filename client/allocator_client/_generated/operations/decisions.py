"""Who may run how much and where, why, and the proof; now and of any decision before.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from datetime import datetime
from typing import Literal

from allocator_client._generated.documents.decisions import (
    AllocationDocument,
    CertificateDocument,
    DecisionDocument,
    EvaluationRequest,
    ExplanationDocument,
    PlacementDocument,
    PolicyInfoDocument,
    ProofDocument,
    RunDocument,
    RunRequest,
    ScheduleDocument,
    TenantAllocationDocument,
    TreeNodeDocument,
    VerificationDocument,
)
from allocator_client.answers import Answer, Rows
from allocator_client.transport import Transport, path_part


class Decisions(Transport):
    """Who may run how much and where, why, and the proof; now and of any decision before."""

    def policies_list(
        self, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[PolicyInfoDocument]:
        """List the policies that a pool can have, with their modes, the JSON Schema of their
        options, and their sources.

        Every key can read it. `long_term` policies keep a history; policies with `places` put tasks
        on servers and honour selectors.
        """
        return self._rows("/api/v1/policies/", {"limit": limit, "cursor": cursor}, "cursor")

    def pools_allocations_list(
        self,
        pool: str,
        *,
        limit: int = 1000,
        cursor: str | None = None,
        by: Literal["workload", "tenant"] | None = None,
    ) -> Rows[AllocationDocument | TenantAllocationDocument]:
        """List what every workload has by the decision in force, or with `by=tenant` every tenant.

        The first page chooses the decision, and its cursors stay with it when a newer one comes
        into force. A tenant key sees its own rows; in a transparent pool it sees all of them, the
        others under pseudonyms. A group key sees the rows of the tenants that were below its group
        when the run began. Before the first decision the answer is 404 `decision.none`.

        Parameters
        ----------
        by
            tenant: sums per tenant.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/allocations/",
            {"limit": limit, "cursor": cursor, "by": by},
            "cursor",
        )

    def pools_decision_show(
        self, pool: str, *, at: str | datetime | None = None
    ) -> Answer[DecisionDocument]:
        """Show the decision in force in a pool, now or at the instant `at`.

        A change is included once `generation` is at least the `Pool-Generation` that the change was
        answered with. Under `tda`, `slot` is the slot in force; a tenant key sees its own tasks in
        it. The future shows planned slots of `tda` only; without any, and before the first
        decision, the answer is 404 `decision.none`. Unless the pool is transparent, a tenant key
        and a group key see the run without its `summary`.

        Parameters
        ----------
        at
            The requested instant; now by default.
        """
        return self._read(f"/api/v1/pools/{path_part(pool)}/decision/", {"at": at})

    def pools_months_verify_compute(self, pool: str, month: str) -> Answer[VerificationDocument]:
        """Recompute a closed month from its entries and price plans.

        It stores nothing and can be repeated. `valid` is true when every check holds: `statements`,
        `price_plans`, `audit` and `manifests` compare what is stored with the digests in the pool's
        chain, `statement_lines` and `postings` recompute. A month that was closed before the chain held
        digests is not checked, and `detail` states it. `manage.py verify` checks all months, and each
        manifest against its entries. Only operator and billing keys may use it: a tenant key gets 404
        `statement.not_found`, as does every key for a month that is open.

        Parameters
        ----------
        month
            A calendar month in the pool's time zone.
        """
        return self._compute(
            f"/api/v1/pools/{path_part(pool)}/months/{path_part(month)}/verify/", {}
        )

    def pools_placements_list(
        self, pool: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[PlacementDocument]:
        """List on which servers the decision in force puts the tasks.

        The first page chooses the decision, and its cursors stay with it when a newer one comes
        into force. A row names one `server`, or in `servers` a range of identical ones, in which
        `tasks` are those on each server. A tenant key sees its own tasks; in a transparent pool it
        sees all of them, with pseudonyms for other tenants, their workloads and their servers.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/placements/",
            {"limit": limit, "cursor": cursor},
            "cursor",
        )

    def pools_runs_list(
        self, pool: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[RunDocument]:
        """List the runs of a pool, newest first, including those that failed or still wait.

        A tenant key sees the runs of its pools, a group key those of its pool; unless the pool is
        transparent, `reason`, `input_digest`, `solve_seconds` and `summary` are null.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/runs/", {"limit": limit, "cursor": cursor}, "cursor"
        )

    def pools_runs_request(
        self, pool: str, body: RunRequest | None = None, *, idempotency_key: str | None = None
    ) -> Answer[RunDocument]:
        """Ask for a new decision although nothing has changed.

        Operators only. Changes ask for their decisions themselves, so this is rarely needed. While
        a run of the pool is pending, further requests are answered with that run. Under a long-term
        policy the run waits for the next boundary of the decision interval. Follow `Location` until
        the `status` is final.
        """
        return self._post(f"/api/v1/pools/{path_part(pool)}/runs/", body or {}, idempotency_key)

    def runs_show(self, run: str) -> Answer[RunDocument]:
        """Show one run, with its status, its time in force, its policy and its summary.

        Summaries are kept for good. A tenant key sees the runs of its pools, and a group key those
        of its pool; unless the pool is transparent, `reason`, `input_digest`, `solve_seconds` and
        `summary` are null. A failed run states why in `error`, and the decision before it stays in
        force.

        Parameters
        ----------
        run
            The id of a run: one computation of a pool's allocation.
        """
        return self._read(f"/api/v1/runs/{path_part(run)}/")

    def runs_allocations_list(
        self,
        run: str,
        *,
        limit: int = 1000,
        cursor: str | None = None,
        by: Literal["workload", "tenant"] | None = None,
    ) -> Rows[AllocationDocument | TenantAllocationDocument]:
        """List what a run gave to every workload, or with `by=tenant` to every tenant.

        `limited_by` states why a workload did not get more. A tenant key sees its own rows; in a
        transparent pool it sees all of them, the others under pseudonyms. A group key sees the rows
        of the tenants that were below its group when the run began. The rows of a run never change
        and are kept for good.

        Parameters
        ----------
        run
            The id of a run: one computation of a pool's allocation.
        by
            tenant: sums per tenant.
        """
        return self._rows(
            f"/api/v1/runs/{path_part(run)}/allocations/",
            {"limit": limit, "cursor": cursor, "by": by},
            "cursor",
        )

    def runs_certificate_show(self, run: str) -> Answer[CertificateDocument]:
        """Show the certificate that proves the optimality of a run, by rounds with their prices.

        For operator and billing keys, and for members of a transparent pool; other tenants get 404
        `run.not_found`. A run that did not succeed, or whose policy has no certificates, answers
        404 `certificate.none`; once its retention is over, the answer is 410 `run.pruned`.

        Parameters
        ----------
        run
            The id of a run: one computation of a pool's allocation.
        """
        return self._read(f"/api/v1/runs/{path_part(run)}/certificate/")

    def runs_explanation_show(self, run: str, tenant: str) -> Answer[ExplanationDocument]:
        """Explain why a tenant got what it got, by its share and level, what binds at which price, and
        a change that would give it more. `budgets` are exhausted ones that bind it. `blocked` states
        that the scheduler keeps its jobs waiting although more was decided than it uses.

        A tenant key can ask about its own tenant only, a group key about those that were below its
        group when the run began. The latter gets what the tenant would, without the groups above its
        own. Others, and tenants without a workload in the run, answer 404 `tenant.not_found`. Each
        counterfactual was computed from the run's input; there may be none. A run that did not succeed
        answers 409 `run.not_succeeded`; once its retention is over, the answer is 410 `run.pruned`. It
        takes one of the evaluations, by default two, that a key, or a tenant by all its keys, may have
        running (429 `evaluation.too_many`).

        Parameters
        ----------
        run
            The id of a run: one computation of a pool's allocation.
        """
        return self._read(f"/api/v1/runs/{path_part(run)}/explanation/{path_part(tenant)}/")

    def runs_input_show(self, run: str) -> Answer[EvaluationRequest]:
        """Show the snapshot that a run computed from, in the shape of an evaluation.

        Sent to `POST /evaluations/`, within the limits there, it gives the same decision. For
        operator and billing keys, and for members of a transparent pool, who see other tenants'
        names and labels as pseudonyms; other tenants get 404 `run.not_found`. A run that has not
        read its input yet answers 404 `run.no_input`; once its retention is over, the
        answer is 410 `run.pruned`.

        Parameters
        ----------
        run
            The id of a run: one computation of a pool's allocation.
        """
        return self._read(f"/api/v1/runs/{path_part(run)}/input/")

    def runs_placements_list(
        self, run: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[PlacementDocument]:
        """List on which servers a run put the tasks.

        A row names one `server`, or in `servers` a range of identical ones, in which `tasks` and
        `resources` are those on each server. A tenant key sees its own tasks; in a transparent pool
        it sees all of them, with pseudonyms for other tenants, their workloads and their servers.
        Placements are kept for a time, by default 90 days, after the decision was in force; then
        the answer is 410 `run.pruned`.

        Parameters
        ----------
        run
            The id of a run: one computation of a pool's allocation.
        """
        return self._rows(
            f"/api/v1/runs/{path_part(run)}/placements/",
            {"limit": limit, "cursor": cursor},
            "cursor",
        )

    def runs_proof_show(self, run: str) -> Answer[ProofDocument]:
        """Return input, answer with certificate, and digests of a decision for others to verify.

        Save it and check it elsewhere with `python -m policies verify FILE`. For operator and
        billing keys, and for members of a transparent pool, whose copy has pseudonyms and verifies
        all the same; other tenants get 404 `run.not_found`. A run that failed, or has not ended,
        answers 409 `run.not_succeeded`, one whose stored decision cannot be read 409
        `run.unreadable`; once its retention is over, the answer is 410 `run.pruned`.

        Parameters
        ----------
        run
            The id of a run: one computation of a pool's allocation.
        """
        return self._read(f"/api/v1/runs/{path_part(run)}/proof/")

    def runs_schedule_show(self, run: str) -> Answer[ScheduleDocument]:
        """Show how a time-sharing decision (`tda`) divides its period into slots, and when each of
        them runs.

        `timetable` counts whole seconds from the start of a period; the first one starts at the
        run's `effective_from`. A tenant key sees its own tasks only, and `objective`, `bound`,
        `lp_bound`, `gap` and `gap_on_the_clock` are null for it unless the pool is transparent.
        Runs of other policies answer 404 `schedule.none`.

        Parameters
        ----------
        run
            The id of a run: one computation of a pool's allocation.
        """
        return self._read(f"/api/v1/runs/{path_part(run)}/schedule/")

    def runs_tree_list(
        self, run: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[TreeNodeDocument]:
        """List the groups and members that a run decided for, each directly before those below it.

        A tenant key sees its own member and the names, weights, tiers, limits and guarantees of the
        groups above it; their other numbers are null. In a transparent pool it sees the whole tree,
        the others under pseudonyms. A group key sees its group and what was below it when the run
        began, with `depth` counted from its group, whose `parent` is null. A run that did not succeed
        answers 409 `run.not_succeeded`; once its retention is over, the answer is 410 `run.pruned`.
        Numbers have twelve digits.

        Parameters
        ----------
        run
            The id of a run: one computation of a pool's allocation.
        """
        return self._rows(
            f"/api/v1/runs/{path_part(run)}/tree/", {"limit": limit, "cursor": cursor}, "cursor"
        )

    def runs_verify_compute(self, run: str) -> Answer[VerificationDocument]:
        """Check a stored decision again without a solver.

        Checked are feasibility, shares, the optimality proof and the digests in the pool's chain.

        It stores nothing and can be repeated. `valid` is true when every check holds. For operator
        and billing keys, and for members of a transparent pool, for whom the `detail` of each check
        is empty; other tenants get 404 `run.not_found`. A run that did not succeed answers 409
        `run.not_succeeded`; once its retention is over, the answer is 410 `run.pruned`.

        Parameters
        ----------
        run
            The id of a run: one computation of a pool's allocation.
        """
        return self._compute(f"/api/v1/runs/{path_part(run)}/verify/", {})
