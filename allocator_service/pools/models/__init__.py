"""Models of pools, their resources, members, groups and servers."""

from allocator_service.pools.models.pool import (
    LARGEST_TIER,
    MOVED_TO_LENGTH,
    RESOURCE_NAME_PATTERN,
    TIER_RANGE,
    Cluster,
    Count,
    Metering,
    OwnServers,
    Pool,
    RecomputeJob,
    ResourceType,
    WeightsMode,
    WindowKind,
    limit_field,
    vector_field,
)
from allocator_service.pools.models.servers import (
    Contribution,
    Server,
    ServerState,
)
from allocator_service.pools.models.terms import (
    Group,
    GroupTerms,
    Membership,
    MembershipTerms,
)

__all__ = [
    "LARGEST_TIER",
    "MOVED_TO_LENGTH",
    "RESOURCE_NAME_PATTERN",
    "TIER_RANGE",
    "Cluster",
    "Contribution",
    "Count",
    "Group",
    "GroupTerms",
    "Membership",
    "MembershipTerms",
    "Metering",
    "OwnServers",
    "Pool",
    "RecomputeJob",
    "ResourceType",
    "Server",
    "ServerState",
    "WeightsMode",
    "WindowKind",
    "limit_field",
    "vector_field",
]
