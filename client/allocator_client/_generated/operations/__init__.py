"""Every operation of the service, in the groups of its document.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from allocator_client._generated.operations.decisions import Decisions
from allocator_client._generated.operations.enforcement import Enforcement
from allocator_client._generated.operations.events_and_webhooks import EventsAndWebhooks
from allocator_client._generated.operations.ledger import Ledger
from allocator_client._generated.operations.money import Money
from allocator_client._generated.operations.pools_and_members import PoolsAndMembers
from allocator_client._generated.operations.reports import Reports
from allocator_client._generated.operations.servers_and_workloads import ServersAndWorkloads
from allocator_client._generated.operations.service import Service
from allocator_client._generated.operations.what_if import WhatIf


class Operations(
    PoolsAndMembers,
    ServersAndWorkloads,
    Decisions,
    WhatIf,
    Enforcement,
    Ledger,
    Reports,
    Money,
    EventsAndWebhooks,
    Service,
):
    """A method for each operation of docs/openapi.yaml, named after its `operationId`."""
