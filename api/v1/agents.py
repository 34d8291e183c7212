"""Agents of a pool that are gone for good."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.selecting import missing
from allocator_service.enforcement.rendering.targets import TARGETS
from allocator_service.enforcement.selectors import agent_named
from allocator_service.enforcement.services import agent_retire
from api.auth import OPERATOR
from api.contract import documents
from api.contract.answers import Answer, Body
from api.contract.fields import is_slug
from api.contract.operations import Operation, describe
from api.views import PoolView, writes


class RetiredAgentDocument(documents.Document):
    agent = documents.SlugField(source="name")
    cluster = documents.StringField(
        source=lambda agent, _: agent.cluster or None,
        allow_null=True,
        description="Null: the whole pool.",
    )
    target = documents.ChoiceField(choices=list(TARGETS))
    reported_at = documents.TimestampField(description="Its last report, by the agent's clock.")
    received_at = documents.TimestampField(description="Its last report, by the service's clock.")
    retired_at = documents.TimestampField()


class AgentRetireView(PoolView):
    scopes: ClassVar = {"POST": OPERATOR}

    @describe(
        Operation(
            "act",
            "Retire an agent that is gone for good",
            Answer(RetiredAgentDocument),
            Body(documents.NoFields),
            headers=("Idempotency-Replayed", "Pool-Generation"),
            problems=(409, 411, 413, 415, 422),
            repeatable=True,
        )
    )
    @writes
    def post(self, request: Request, pool: str, agent: str) -> Response:
        """Retire an agent whose scheduler is gone, so that it is no longer `stale`.

        Operators only. The agent must be silent for more than three of its intervals: one that
        still reports is refused with 409 `enforcement.agent_reports`. With the last agent of a
        cluster the capacity of the cluster leaves at the next decision. Retiring a retired agent
        changes nothing. An agent that reports again is present again, and so is its cluster.
        """
        # Before the body is read: a pool that the caller may not see is 404 even if the body is
        # wrong.
        of_pool = self.pool
        self.read(documents.NoFields)
        found = agent_named(pool=of_pool, name=agent) if is_slug(agent) else None
        if found is None:
            raise missing("agent.not_found")
        agent_retire(agent=found, now=utc_now())
        # The service changed the agent and the pool on objects of its own, which it read under its
        # lock.
        found.refresh_from_db()
        of_pool.refresh_from_db(fields=["generation"])
        headers = {"Pool-Generation": str(of_pool.generation)}
        return Response(RetiredAgentDocument.write(found, None), headers=headers)
