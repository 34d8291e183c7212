"""Clusters of a pool, each with its own scheduler and agents."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.enforcement.clusters import clusters_of
from api.auth import OPERATOR_BILLING_AND_AGENT
from api.contract import documents
from api.contract.operations import shows
from api.v1.reports.documents import AmountsField
from api.views import PoolView

MAX_SERVERS, MAX_CLUSTERS = 10**7, 10_000


class ClusterDocument(documents.Document):
    cluster = documents.StringField()
    servers = documents.IntegerField(minimum=0, maximum=MAX_SERVERS)
    capacity = AmountsField(description="Of the servers that decisions use.")
    agents = documents.ListField(documents.SlugField(), min_items=0)
    stale = documents.BooleanField(description="All of its agents are silent.")
    left_at = documents.TimestampField(
        allow_null=True,
        description="Since when its servers give no capacity, because its agents were silent for"
        " longer than the pool's `cluster_grace`.",
    )


class ClustersDocument(documents.Document):
    pool = documents.SlugField(source=lambda _, view: view.pool.slug)
    cluster_grace = documents.DurationField(source=lambda _, view: view.pool.cluster_grace)
    clusters = documents.ListField(
        ClusterDocument, source=lambda found, _: found, min_items=0, max_items=MAX_CLUSTERS
    )


class ClustersView(PoolView):
    scopes: ClassVar = {"GET": OPERATOR_BILLING_AND_AGENT}

    @shows(ClustersDocument, "Show the clusters of a pool", headers=())
    def get(self, request: Request, pool: str) -> Response:
        """Show the clusters of a pool with their servers, capacity and agents.

        A server is in the cluster that its label `cluster` names, or in that of the pool's slug.
        Without any such label and without an agent of a cluster the list is empty: one scheduler has
        all servers.
        """
        return Response(ClustersDocument.write(clusters_of(pool=self.pool, now=utc_now()), self))
