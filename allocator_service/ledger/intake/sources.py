"""Sources of usage, each of one cluster."""

from collections.abc import Collection
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from allocator_service.core.audit import audit_record, stated_fields
from allocator_service.core.errors import Conflict
from allocator_service.ledger.models import UsageSource
from allocator_service.pools.clusters import labelled_clusters
from allocator_service.pools.models import Pool


def clusters_of_sources(pool: Pool, cluster: str, sources: Collection[str]) -> dict[str, str]:
    """Return which sources are of another present cluster than the caller's, with that cluster.

    None are if the caller's key is bound to no cluster.
    """
    found = _of_others(pool, cluster, sources) if cluster else UsageSource.objects.none()
    return dict(found.values_list("source", "cluster"))


def sources_claim(pool: Pool, cluster: str, sources: Collection[str]) -> None:
    """Make sources without a present cluster those of the caller's, within the open transaction.

    Raises `Conflict` if another cluster has claimed one meanwhile.
    """
    if not cluster:
        return
    UsageSource.objects.bulk_create(
        # Sorted, so that two requests with the same sources lock them in one order.
        [UsageSource(pool=pool, source=source, cluster=cluster) for source in sorted(sources)],
        ignore_conflicts=True,
    )
    # It waits for others that claim the same, and leaves what they have claimed.
    stated = UsageSource.objects.filter(pool=pool, source__in=sources)
    stated.exclude(cluster__in=_present(pool)).update(cluster=cluster)
    taken = _of_others(pool, cluster, sources).first()
    if taken is not None:
        raise Conflict(
            f"Usage of {taken.source} is posted by cluster {taken.cluster}.", code="cluster.other"
        )


@transaction.atomic
def source_free(*, source: UsageSource, now: datetime) -> None:
    """Let the next cluster that posts usage of a source have it."""
    before = stated_fields(source)
    source.cluster = ""
    source.save(update_fields=["cluster"])
    audit_record(
        action="usage_source.free", instance=source, before=before, now=now, pool=source.pool.slug
    )


def _of_others(pool: Pool, cluster: str, sources: Collection[str]) -> QuerySet[UsageSource]:
    of_others = UsageSource.objects.filter(pool=pool, source__in=sources).exclude(cluster=cluster)
    return of_others.filter(cluster__in=_present(pool))


def _present(pool: Pool) -> set[str]:
    """Return the clusters that the pool has."""
    return {pool.slug, *labelled_clusters(pool)}
