"""Version 1: additive change only."""

from django.urls import include, path

RESOURCES = (
    "tenants",
    "pools",
    "members",
    "groups",
    "servers",
    "workloads",
    "imports",
    "runs",
    "decisions",
    "enforcement",
    "evaluations",
    "comparisons",
    "simulations",
    "backtests",
    "events",
    "ledger",
    "reports",
    "price_plans",
    "statements",
    "billing",
    "webhooks",
    "policies",
)

urlpatterns = [path("", include(f"api.v1.{resource}.urls")) for resource in RESOURCES]
