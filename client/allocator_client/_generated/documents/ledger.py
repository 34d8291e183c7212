"""Documents of ledger.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Any, Literal, NotRequired, TypedDict


class BlockDecision(TypedDict):
    run: str
    pool: str
    generation: int
    effective_from: str
    input: str
    answer: str


class BlockDigest(TypedDict):
    document: str
    pool: str
    name: str
    sha256: str


class BlockDocument(TypedDict):
    pool: str
    number: int
    # 1: sealed before digests were of exported lines; 3: holds digests of documents.
    format: int
    first_sequence: int | None
    last_sequence: int | None
    entries: int
    decisions: list[BlockDecision]
    # Digests of statements, months, manifests, price plans and audit records.
    digests: list[BlockDigest]
    digest: str
    sealed_at: str


class EntryDocument(TypedDict):
    sequence: NotRequired[int]
    id: str
    pool: str
    tenant: str
    # A tenant sees other tenants under pseudonyms.
    server_owner: str | None
    workload: str | None
    resource: str
    unit: str
    quantity: str
    start: str
    end: str
    # quantity × seconds.
    amount: str
    kind: Literal["usage", "alone", "correction"]
    corrects: str | None
    reason: str
    source: str
    event_id: str | None
    run: str | None
    recorded_at: str
    # Of the block in which the entry was sealed, chained to those before.
    digest: NotRequired[str]


class CorrectionRequest(TypedDict):
    # The correct quantity of the entry.
    quantity: float | str
    # Another resource of the same reported event, also one that it left out.
    resource: NotRequired[str]
    reason: str


class UsageImportRequest(TypedDict):
    content: str | dict[str, Any]
    # Report every row and write nothing.
    dry_run: NotRequired[bool]
    # Write the other rows when some are refused, instead of none.
    skip_refused: NotRequired[bool]
    # Register unknown tenants.
    register_tenants: NotRequired[bool]
    format: NotRequired[Literal["csv", "sacct", "kubernetes", "swf"]]
    # The tenant of rows that name none.
    tenant: NotRequired[str | None]
    # The label, column (sacct) or field (swf) that names the tenant.
    tenant_label: NotRequired[str | None]
    # By default the name of the format.
    source: NotRequired[str | None]
    # swf: when the trace begins.
    begin: NotRequired[str | None]


class UsageRequest(TypedDict):
    source: str
    id: str
    # Optional for a tenant's key, which means itself.
    tenant: NotRequired[str]
    # Its name.
    workload: NotRequired[str]
    # Tasks of the workload; each counts as its demand.
    tasks: NotRequired[int]
    # Instead of tasks.
    resources: NotRequired[dict[str, float | str]]
    start: str
    end: str


class RecordedDocument(TypedDict):
    accepted: int
    # Already posted, with the same content.
    duplicates: int
