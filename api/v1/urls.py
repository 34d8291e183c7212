"""Routes of version 1, which changes by additions only."""

from django.urls import path

from api.v1.backtests import BacktestCancelView, BacktestResultsView, BacktestsView, BacktestView
from api.v1.budgets import BudgetsView, BudgetView
from api.v1.comparisons import ComparisonsView
from api.v1.corrections import CorrectionsView
from api.v1.credit_notes import CreditNotesView, ReverseView
from api.v1.decisions import DecisionView, PoolAllocationsView, PoolPlacementsView
from api.v1.deliveries import DeliveriesView, ResendView, TestWebhookView
from api.v1.enforcement import EnforcementView
from api.v1.entitlements import EntitlementsView
from api.v1.evaluations import EvaluationsView
from api.v1.events import EventsView
from api.v1.explanations import ExplanationView
from api.v1.group_statements import GroupStatementsView, GroupStatementView
from api.v1.groups import GroupHistoryView, GroupsView, GroupView
from api.v1.imports import GroupImportsView, NodeImportsView, UsageImportsView, WorkloadImportsView
from api.v1.ledger import BlocksView, EntriesView, ExportView
from api.v1.members import MembersView, MemberView
from api.v1.months import FocusView, ManifestView, MonthEntriesView, MonthVerifyView, MonthView
from api.v1.policies import PoliciesView
from api.v1.pools import OnePoolView, PoolsView
from api.v1.price_plans import OnePlanView, PlansView, PublishView
from api.v1.renderings import RenderingView
from api.v1.reports.views import (
    BillingView,
    FairnessView,
    LendingView,
    SharingDegreeView,
    UtilizationView,
)
from api.v1.reratings import ReratingsView
from api.v1.runs import (
    AllocationsView,
    CertificateView,
    InputView,
    PlacementsView,
    ProofView,
    RunsView,
    RunView,
    VerifyView,
)
from api.v1.schedules import ScheduleView
from api.v1.servers import ActivateView, DrainView, RetireView, ServersView, ServerView
from api.v1.service_units import ServiceUnitsView
from api.v1.simulations import SimulationsView, SimulationView
from api.v1.statements import StatementsView, StatementView
from api.v1.tenants import TenantsView, TenantView
from api.v1.trees import TreeView
from api.v1.usage import UsageView
from api.v1.webhooks import RotateSecretView, WebhooksView, WebhookView
from api.v1.workloads import WorkloadsView, WorkloadView

POOL = "pools/<str:pool>"
SERVER = f"{POOL}/servers/<str:server>"
WEBHOOK = "webhooks/<str:webhook>"
REPORTS = (SharingDegreeView, FairnessView, UtilizationView, LendingView, BillingView)

urlpatterns = [
    path("tenants/", TenantsView.as_view(), name="tenants"),
    path("tenants/<str:tenant>/", TenantView.as_view(), name="tenant"),
    path("pools/", PoolsView.as_view(), name="pools"),
    path(f"{POOL}/", OnePoolView.as_view(), name="pool"),
    path(f"{POOL}/members/", MembersView.as_view(), name="members"),
    path(f"{POOL}/members/<str:tenant>/", MemberView.as_view(), name="member"),
    path(f"{POOL}/groups/", GroupsView.as_view(), name="groups"),
    path(f"{POOL}/groups/<str:group>/", GroupView.as_view(), name="group"),
    path(
        f"{POOL}/groups/<str:group>/history/",
        GroupHistoryView.as_view(),
        name="group-history",
    ),
    path(f"{POOL}/servers/", ServersView.as_view(), name="servers"),
    path(f"{SERVER}/", ServerView.as_view(), name="server"),
    path(f"{SERVER}/drain/", DrainView.as_view(), name="server-drain"),
    path(f"{SERVER}/activate/", ActivateView.as_view(), name="server-activate"),
    path(f"{SERVER}/retire/", RetireView.as_view(), name="server-retire"),
    path(f"{POOL}/workloads/", WorkloadsView.as_view(), name="workloads"),
    path(f"{POOL}/workloads/<str:workload>/", WorkloadView.as_view(), name="workload"),
    path(f"{POOL}/imports/groups/", GroupImportsView.as_view(), name="import-groups"),
    path(f"{POOL}/imports/nodes/", NodeImportsView.as_view(), name="import-nodes"),
    path(f"{POOL}/imports/usage/", UsageImportsView.as_view(), name="import-usage"),
    path(
        f"{POOL}/imports/workloads/",
        WorkloadImportsView.as_view(),
        name="import-workloads",
    ),
    path(f"{POOL}/runs/", RunsView.as_view(), name="runs"),
    path("runs/<str:run>/", RunView.as_view(), name="run"),
    path("runs/<str:run>/allocations/", AllocationsView.as_view(), name="run-allocations"),
    path("runs/<str:run>/placements/", PlacementsView.as_view(), name="run-placements"),
    path("runs/<str:run>/certificate/", CertificateView.as_view(), name="run-certificate"),
    path("runs/<str:run>/schedule/", ScheduleView.as_view(), name="run-schedule"),
    path("runs/<str:run>/tree/", TreeView.as_view(), name="run-tree"),
    path("runs/<str:run>/input/", InputView.as_view(), name="run-input"),
    path("runs/<str:run>/proof/", ProofView.as_view(), name="run-proof"),
    path(
        "runs/<str:run>/explanation/<str:tenant>/",
        ExplanationView.as_view(),
        name="run-explanation",
    ),
    path("runs/<str:run>/verify/", VerifyView.as_view(), name="run-verify"),
    path(f"{POOL}/decision/", DecisionView.as_view(), name="decision"),
    path(f"{POOL}/allocations/", PoolAllocationsView.as_view(), name="allocations"),
    path(f"{POOL}/placements/", PoolPlacementsView.as_view(), name="placements"),
    path(f"{POOL}/enforcement/", EnforcementView.as_view(), name="enforcement"),
    path(f"{POOL}/entitlements/", EntitlementsView.as_view(), name="entitlements"),
    path(
        f"{POOL}/decision/renderings/<str:target>/",
        RenderingView.as_view(),
        name="rendering",
    ),
    path("evaluations/", EvaluationsView.as_view(), name="evaluations"),
    path("comparisons/", ComparisonsView.as_view(), name="comparisons"),
    path(f"{POOL}/simulations/", SimulationsView.as_view(), name="simulations"),
    path("simulations/<str:simulation>/", SimulationView.as_view(), name="simulation"),
    path("backtests/", BacktestsView.as_view(), name="backtests"),
    path("backtests/<str:backtest>/", BacktestView.as_view(), name="backtest"),
    path("backtests/<str:backtest>/cancel/", BacktestCancelView.as_view(), name="backtest-cancel"),
    path(
        "backtests/<str:backtest>/results/", BacktestResultsView.as_view(), name="backtest-results"
    ),
    path("events/", EventsView.as_view(), name="events"),
    path(f"{POOL}/usage/", UsageView.as_view(), name="usage"),
    path("ledger-entries/", EntriesView.as_view(), name="ledger-entries"),
    path("ledger-blocks/", BlocksView.as_view(), name="ledger-blocks"),
    path("ledger-entries/export/", ExportView.as_view(), name="ledger-export"),
    path(
        "ledger-entries/<str:entry>/corrections/",
        CorrectionsView.as_view(),
        name="ledger-corrections",
    ),
    *(
        path(
            f"{POOL}/reports/{view.report.name}/", view.as_view(), name=f"report-{view.report.name}"
        )
        for view in REPORTS
    ),
    path("price-plans/", PlansView.as_view(), name="price-plans"),
    path("price-plans/<str:plan>/", OnePlanView.as_view(), name="price-plan"),
    path("price-plans/<str:plan>/publish/", PublishView.as_view(), name="price-plan-publish"),
    path(f"{POOL}/statements/", StatementsView.as_view(), name="statements"),
    path(f"{POOL}/statements/<str:month>/<str:tenant>/", StatementView.as_view(), name="statement"),
    path(
        f"{POOL}/groups/<str:group>/statements/",
        GroupStatementsView.as_view(),
        name="group-statements",
    ),
    path(
        f"{POOL}/groups/<str:group>/statements/<str:month>/",
        GroupStatementView.as_view(),
        name="group-statement",
    ),
    path(f"{POOL}/months/<str:month>/", MonthView.as_view(), name="month"),
    path(f"{POOL}/months/<str:month>/manifest/", ManifestView.as_view(), name="manifest"),
    path(f"{POOL}/months/<str:month>/verify/", MonthVerifyView.as_view(), name="month-verify"),
    path(f"{POOL}/months/<str:month>/focus/", FocusView.as_view(), name="focus"),
    path(f"{POOL}/months/<str:month>/entries/", MonthEntriesView.as_view(), name="month-entries"),
    path(f"{POOL}/reratings/", ReratingsView.as_view(), name="reratings"),
    path(f"{POOL}/credit-notes/", CreditNotesView.as_view(), name="credit-notes"),
    path(
        f"{POOL}/credit-notes/<str:credit_note>/reverse/",
        ReverseView.as_view(),
        name="credit-note-reverse",
    ),
    path(f"{POOL}/budgets/", BudgetsView.as_view(), name="budgets"),
    path(f"{POOL}/budgets/<str:budget>/", BudgetView.as_view(), name="budget"),
    path(f"{POOL}/service-units/", ServiceUnitsView.as_view(), name="service-units"),
    path("webhooks/", WebhooksView.as_view(), name="webhooks"),
    path(f"{WEBHOOK}/", WebhookView.as_view(), name="webhook"),
    path(f"{WEBHOOK}/test/", TestWebhookView.as_view(), name="webhook-test"),
    path(f"{WEBHOOK}/rotate-secret/", RotateSecretView.as_view(), name="webhook-rotate"),
    path(f"{WEBHOOK}/deliveries/", DeliveriesView.as_view(), name="deliveries"),
    path(f"{WEBHOOK}/deliveries/<str:delivery>/resend/", ResendView.as_view(), name="resend"),
    path("policies/", PoliciesView.as_view(), name="policies"),
]
