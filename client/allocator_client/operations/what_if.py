"""Problems of your own and changes of a pool, computed without storing or changing anything.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from allocator_client.answers import Answer, Rows
from allocator_client.documents.decisions import EvaluationRequest
from allocator_client.documents.what_if import (
    ComparisonDocument,
    ComparisonRequest,
    EvaluationDocument,
    SimulationDocument,
    SimulationRequest,
)
from allocator_client.transport import Transport, path_part


class WhatIf(Transport):
    """Problems of your own and changes of a pool, computed without storing or changing anything."""

    def comparisons_compute(self, body: ComparisonRequest) -> Answer[ComparisonDocument]:
        """Compute what 1 to 20 policies would decide on one problem, a column each, without storing
        anything.

        `input` is a problem as evaluations take it, whose own `policy` is ignored, or `{"run": id}`
        for the input of a stored run. A tenant key can name runs of transparent pools only
        (otherwise 404 `run.not_found`). A policy that cannot answer says why in the `error` of its
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
        `simulation.scope`); an operator can also change servers, members, weights and the policy.
        With 20 simulations already waiting in the pool, counted per tenant and for all operators
        together, the answer is 409 `simulation.too_many`.
        """
        return self._post(
            f"/api/v1/pools/{path_part(pool)}/simulations/", body or {}, idempotency_key
        )

    def simulations_show(self, simulation: str) -> Answer[SimulationDocument]:
        """Show a simulation and, once it succeeded, its result before and after the changes.

        A failed one says why in `error`, such as a change that the pool cannot take. A tenant key
        sees the simulations that the tenant asked for, with its own rows and without the pool's
        summary; any other id answers 404 `simulation.not_found`.
        """
        return self._read(f"/api/v1/simulations/{path_part(simulation)}/")
