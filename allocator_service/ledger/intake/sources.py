"""Sources of usage, each of one cluster."""

from collections.abc import Collection

from allocator_service.ledger.models import UsageSource
from allocator_service.pools.clusters import labelled_clusters
from allocator_service.pools.models import Pool


def usage_sources(
    *, pool: Pool, cluster: str, sources: Collection[str], writes: bool
) -> dict[str, str]:
    """Return the clusters of sources that have one, none for a key that is bound to no cluster.

    With `writes`, sources without a cluster become those of the caller's, within the open transaction.
    So do those of a cluster that the pool has no more.
    """
    if not cluster:
        return {}
    if writes:
        UsageSource.objects.bulk_create(
            [UsageSource(pool=pool, source=source, cluster=cluster) for source in sorted(sources)],
            ignore_conflicts=True,
        )
    present = UsageSource.objects.filter(pool=pool, source__in=sources)
    others = present.exclude(cluster=cluster)
    if others.exists():
        gone = others.exclude(cluster__in={pool.slug, *labelled_clusters(pool)})
        if writes:
            gone.update(cluster=cluster)
        else:
            others = others.exclude(pk__in=gone.values("pk"))
    return dict(others.values_list("source", "cluster"))
