"""Documents of service.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from typing import Literal, TypedDict


class RootCollections(TypedDict):
    tenants: str
    pools: str
    policies: str
    evaluations: str
    comparisons: str
    backtests: str
    events: str
    ledger_entries: str
    price_plans: str
    webhooks: str


class RootDocument(TypedDict):
    version: str
    documentation: str
    openapi: str
    collections: RootCollections


class StatusDocument(TypedDict):
    status: Literal["ok"]


class ReadinessChecks(TypedDict):
    database: Literal["ok", "failed"]
    migrations: Literal["ok", "failed"]
    broker: Literal["ok", "degraded"]
    worker: Literal["ok", "degraded"]
    relay: Literal["ok", "degraded"]
    sender: Literal["ok", "degraded"]
    backtests: Literal["ok", "degraded"]
    metering: Literal["ok", "degraded"]


class ReadinessDocument(TypedDict):
    status: Literal["ok", "degraded", "failed"]
    checks: ReadinessChecks
