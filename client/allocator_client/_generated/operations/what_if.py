"""Problems, traces, changes of a pool and its history under other policies: nothing is decided.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Literal

from allocator_client._generated.documents.decisions import EvaluationRequest
from allocator_client._generated.documents.what_if import (
    BacktestDocument,
    BacktestRequest,
    BacktestResultsDocument,
    ComparisonDocument,
    ComparisonRequest,
    EvaluationDocument,
    SimulationDocument,
    SimulationRequest,
)
from allocator_client.answers import Answer, Download, Rows
from allocator_client.transport import Transport, path_part


class WhatIf(Transport):
    """Problems, traces, changes of a pool and its history under other policies: nothing is decided."""

    def backtests_list(
        self, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[BacktestDocument]:
        """List the backtests that this key asked for, newest first.

        So does the key that replaced it by rotation; others do not.
        """
        return self._rows("/api/v1/backtests/", {"limit": limit, "cursor": cursor}, "cursor")

    def backtests_request(
        self, body: BacktestRequest, *, idempotency_key: str | None = None
    ) -> Answer[BacktestDocument]:
        """Ask what several policies would have done with the same tasks on the same servers.

        The tasks are those of a `trace` in the body, which runs on the `servers` that are named or on
        those of a `pool`, or those of the `history` of a pool, on its servers as they joined and left.
        A tenant key can name pools that it is a member of: of a transparent one it gets the whole
        history with the others under pseudonyms, of any other its own usage on its own servers.

        Workers simulate each policy with each seed; follow `Location` for the progress, and
        `results/` once it is `succeeded`. The first 64 KiB of a trace are read at once, so that a wrong
        format is 422 `trace.line` with the number of the line; what is wrong further on fails the
        backtest with the same code. A trace has at most 256 MiB unpacked, 2,000,000 tasks and 2,000
        tenants, a backtest at most 60 simulations (413 `backtest.too_large`). A key may have three
        backtests open by default (409 `backtest.too_many`).
        """
        return self._post("/api/v1/backtests/", body, idempotency_key)

    def backtests_show(self, backtest: str) -> Answer[BacktestDocument]:
        """Show a backtest, with its progress, what was read, and the reason of a failure.

        The key that asked for it can read it, and so can the key that replaced that one by rotation.
        Any other key gets 404 `backtest.not_found`.
        """
        return self._read(f"/api/v1/backtests/{path_part(backtest)}/")

    def backtests_cancel_act(
        self, backtest: str, *, idempotency_key: str | None = None
    ) -> Answer[BacktestDocument]:
        """Cancel a backtest. What runs of it ends within seconds, and its results are dropped.

        Cancelling it again changes nothing. One that has succeeded or failed is 409
        `backtest.finished`.
        """
        return self._post(f"/api/v1/backtests/{path_part(backtest)}/cancel/", {}, idempotency_key)

    def backtests_results_show(self, backtest: str) -> Answer[BacktestResultsDocument]:
        """Show the utilisation, waiting, completion, fairness and money of each policy.

        JSON is everything; CSV and NDJSON have a row per policy and tenant, SVG a picture per question,
        and HTML is one page with all of it that can be sent on. The digest of what every policy was
        given is in `input`. Before the backtest has succeeded it is 409 `backtest.unfinished`.
        """
        return self._read(f"/api/v1/backtests/{path_part(backtest)}/results/")

    def backtests_results_show_as(
        self, backtest: str, *, format: Literal["csv", "ndjson", "svg", "html"]
    ) -> Download:
        """`backtests_results_show` as a file."""
        return self._file(f"/api/v1/backtests/{path_part(backtest)}/results/", {"format": format})

    def comparisons_compute(self, body: ComparisonRequest) -> Answer[ComparisonDocument]:
        """Compute what 1 to 20 policies would decide on one problem, a column each, without storing
        anything.

        `input` is a problem as evaluations take it, whose own `policy` is ignored, or `{"run": id}`
        for the input of a stored run. A tenant key can name runs of transparent pools only
        (otherwise 404 `run.not_found`). A policy that cannot answer states why in the `error` of its
        column, and the others answer. All columns share the limits of one evaluation, 10 seconds
        included.
        """
        return self._compute("/api/v1/comparisons/", body)

    def evaluations_compute(self, body: EvaluationRequest) -> Answer[EvaluationDocument]:
        """Compute what a policy would decide on the problem in the body, without storing anything.

        The engine is the one that decides for pools; `include` adds placements, certificate,
        properties, schedule and explanations. For a long-term policy one call is one step: send
        `history` of the answer back to continue. A problem has at most 2,000 tenants, 5,000
        workloads and 1,000 distinct kinds of servers (413 `evaluation.too_large`), and its
        computation takes at most 10 seconds (503 `evaluation.timeout`). A key, or a tenant by all
        its keys, may have two evaluations running by default (429 `evaluation.too_many`).
        """
        return self._compute("/api/v1/evaluations/", body)

    def pools_simulations_list(
        self, pool: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Rows[SimulationDocument]:
        """List the simulations of a pool, newest first.

        An operator sees all of them; a tenant key sees those that the tenant asked for, with its
        own rows of the results.
        """
        return self._rows(
            f"/api/v1/pools/{path_part(pool)}/simulations/",
            {"limit": limit, "cursor": cursor},
            "cursor",
        )

    def pools_simulations_request(
        self,
        pool: str,
        body: SimulationRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Answer[SimulationDocument]:
        """Ask what a pool's decision would be after some changes to its live state.

        A worker computes it; follow `Location` for the result, before and after. It decides nothing
        and records no event. A tenant key can change its own workloads only (422
        `simulation.scope`). An operator can also change servers, groups, members, weights and the
        policy. With 20 simulations already waiting in the pool, counted per tenant and for all operators
        together, the answer is 409 `simulation.too_many`.
        """
        return self._post(
            f"/api/v1/pools/{path_part(pool)}/simulations/", body or {}, idempotency_key
        )

    def simulations_show(self, simulation: str) -> Answer[SimulationDocument]:
        """Show a simulation and, once it succeeded, its result before and after the changes.

        A failed one states why in `error`, such as a change that the pool cannot take. A tenant key
        sees the simulations that the tenant asked for, with its own rows and without the pool's
        summary; any other id answers 404 `simulation.not_found`.
        """
        return self._read(f"/api/v1/simulations/{path_part(simulation)}/")
