"""Routes of version 1, which changes by additions only."""

from django.urls import path

from api.v1 import (
    agents,
    allocation_history,
    backtests,
    budgets,
    clusters,
    comparisons,
    corrections,
    credit_notes,
    decisions,
    deliveries,
    enforcement,
    entitlements,
    evaluations,
    events,
    explanations,
    focus_schemas,
    group_statements,
    groups,
    imports,
    ledger,
    members,
    months,
    policies,
    pools,
    price_plans,
    renderings,
    reratings,
    runs,
    schedules,
    servers,
    service_units,
    simulations,
    statements,
    tenants,
    trees,
    usage,
    webhooks,
    workloads,
)
from api.v1.reports import billing, fairness, lending, sharing_degree, utilization

POOL = "pools/<str:pool>"
SERVER = f"{POOL}/servers/<str:server>"
WEBHOOK = "webhooks/<str:webhook>"
REPORTS = (
    sharing_degree.SharingDegreeView,
    fairness.FairnessView,
    utilization.UtilizationView,
    lending.LendingView,
    billing.BillingView,
)

# Keys are matched as text: the view answers 404 with its code for a malformed one.
urlpatterns = [
    path("tenants/", tenants.TenantsView.as_view(), name="tenants"),
    path("tenants/<str:tenant>/", tenants.TenantView.as_view(), name="tenant"),
    path("pools/", pools.PoolsView.as_view(), name="pools"),
    path(f"{POOL}/", pools.OnePoolView.as_view(), name="pool"),
    path(f"{POOL}/members/", members.MembersView.as_view(), name="members"),
    path(f"{POOL}/members/<str:tenant>/", members.MemberView.as_view(), name="member"),
    path(
        f"{POOL}/members/<str:tenant>/allocation-history/",
        allocation_history.AllocationHistoryView.as_view(),
        name="allocation-history",
    ),
    path(f"{POOL}/groups/", groups.GroupsView.as_view(), name="groups"),
    path(f"{POOL}/groups/<str:group>/", groups.GroupView.as_view(), name="group"),
    path(
        f"{POOL}/groups/<str:group>/history/",
        groups.GroupHistoryView.as_view(),
        name="group-history",
    ),
    path(f"{POOL}/servers/", servers.ServersView.as_view(), name="servers"),
    path(f"{SERVER}/", servers.ServerView.as_view(), name="server"),
    path(f"{SERVER}/drain/", servers.DrainView.as_view(), name="server-drain"),
    path(f"{SERVER}/activate/", servers.ActivateView.as_view(), name="server-activate"),
    path(f"{SERVER}/retire/", servers.RetireView.as_view(), name="server-retire"),
    path(f"{POOL}/workloads/", workloads.WorkloadsView.as_view(), name="workloads"),
    path(f"{POOL}/workloads/<str:workload>/", workloads.WorkloadView.as_view(), name="workload"),
    path(f"{POOL}/imports/groups/", imports.GroupImportsView.as_view(), name="import-groups"),
    path(f"{POOL}/imports/nodes/", imports.NodeImportsView.as_view(), name="import-nodes"),
    path(f"{POOL}/imports/usage/", imports.UsageImportsView.as_view(), name="import-usage"),
    path(
        f"{POOL}/imports/workloads/",
        imports.WorkloadImportsView.as_view(),
        name="import-workloads",
    ),
    path(f"{POOL}/runs/", runs.RunsView.as_view(), name="runs"),
    path("runs/<str:run>/", runs.RunView.as_view(), name="run"),
    path("runs/<str:run>/allocations/", runs.AllocationsView.as_view(), name="run-allocations"),
    path("runs/<str:run>/placements/", runs.PlacementsView.as_view(), name="run-placements"),
    path("runs/<str:run>/certificate/", runs.CertificateView.as_view(), name="run-certificate"),
    path("runs/<str:run>/schedule/", schedules.ScheduleView.as_view(), name="run-schedule"),
    path("runs/<str:run>/tree/", trees.TreeView.as_view(), name="run-tree"),
    path("runs/<str:run>/input/", runs.InputView.as_view(), name="run-input"),
    path("runs/<str:run>/proof/", runs.ProofView.as_view(), name="run-proof"),
    path(
        "runs/<str:run>/explanation/<str:tenant>/",
        explanations.ExplanationView.as_view(),
        name="run-explanation",
    ),
    path("runs/<str:run>/verify/", runs.VerifyView.as_view(), name="run-verify"),
    path(f"{POOL}/decision/", decisions.DecisionView.as_view(), name="decision"),
    path(f"{POOL}/allocations/", decisions.PoolAllocationsView.as_view(), name="allocations"),
    path(f"{POOL}/placements/", decisions.PoolPlacementsView.as_view(), name="placements"),
    path(f"{POOL}/enforcement/", enforcement.EnforcementView.as_view(), name="enforcement"),
    path(
        f"{POOL}/agents/<str:agent>/retire/", agents.AgentRetireView.as_view(), name="agent-retire"
    ),
    path(f"{POOL}/clusters/", clusters.ClustersView.as_view(), name="clusters"),
    path(f"{POOL}/entitlements/", entitlements.EntitlementsView.as_view(), name="entitlements"),
    path(
        f"{POOL}/decision/renderings/<str:target>/",
        renderings.RenderingView.as_view(),
        name="rendering",
    ),
    path("evaluations/", evaluations.EvaluationsView.as_view(), name="evaluations"),
    path("comparisons/", comparisons.ComparisonsView.as_view(), name="comparisons"),
    path(f"{POOL}/simulations/", simulations.SimulationsView.as_view(), name="simulations"),
    path("simulations/<str:simulation>/", simulations.SimulationView.as_view(), name="simulation"),
    path("backtests/", backtests.BacktestsView.as_view(), name="backtests"),
    path("backtests/<str:backtest>/", backtests.BacktestView.as_view(), name="backtest"),
    path(
        "backtests/<str:backtest>/cancel/",
        backtests.BacktestCancelView.as_view(),
        name="backtest-cancel",
    ),
    path(
        "backtests/<str:backtest>/results/",
        backtests.BacktestResultsView.as_view(),
        name="backtest-results",
    ),
    path("events/", events.EventsView.as_view(), name="events"),
    path(f"{POOL}/usage/", usage.UsageView.as_view(), name="usage"),
    path("ledger-entries/", ledger.EntriesView.as_view(), name="ledger-entries"),
    path("ledger-blocks/", ledger.BlocksView.as_view(), name="ledger-blocks"),
    path("ledger-entries/export/", ledger.ExportView.as_view(), name="ledger-export"),
    path(
        "ledger-entries/<str:entry>/corrections/",
        corrections.CorrectionsView.as_view(),
        name="ledger-corrections",
    ),
    *(
        path(
            f"{POOL}/reports/{view.report.name}/", view.as_view(), name=f"report-{view.report.name}"
        )
        for view in REPORTS
    ),
    path("price-plans/", price_plans.PlansView.as_view(), name="price-plans"),
    path("price-plans/<str:plan>/", price_plans.OnePlanView.as_view(), name="price-plan"),
    path(
        "price-plans/<str:plan>/publish/",
        price_plans.PublishView.as_view(),
        name="price-plan-publish",
    ),
    path(f"{POOL}/statements/", statements.StatementsView.as_view(), name="statements"),
    path(
        f"{POOL}/statements/<str:month>/<str:tenant>/",
        statements.StatementView.as_view(),
        name="statement",
    ),
    path(
        f"{POOL}/groups/<str:group>/statements/",
        group_statements.GroupStatementsView.as_view(),
        name="group-statements",
    ),
    path(
        f"{POOL}/groups/<str:group>/statements/<str:month>/",
        group_statements.GroupStatementView.as_view(),
        name="group-statement",
    ),
    path(f"{POOL}/months/<str:month>/", months.MonthView.as_view(), name="month"),
    path(f"{POOL}/months/<str:month>/manifest/", months.ManifestView.as_view(), name="manifest"),
    path(
        f"{POOL}/months/<str:month>/verify/", months.MonthVerifyView.as_view(), name="month-verify"
    ),
    path(f"{POOL}/months/<str:month>/focus/", months.FocusView.as_view(), name="focus"),
    path(
        f"{POOL}/months/<str:month>/entries/",
        months.MonthEntriesView.as_view(),
        name="month-entries",
    ),
    path(f"{POOL}/reratings/", reratings.ReratingsView.as_view(), name="reratings"),
    path(f"{POOL}/credit-notes/", credit_notes.CreditNotesView.as_view(), name="credit-notes"),
    path(
        f"{POOL}/credit-notes/<str:credit_note>/reverse/",
        credit_notes.ReverseView.as_view(),
        name="credit-note-reverse",
    ),
    path(f"{POOL}/budgets/", budgets.BudgetsView.as_view(), name="budgets"),
    path(f"{POOL}/budgets/<str:budget>/", budgets.BudgetView.as_view(), name="budget"),
    path(
        f"{POOL}/budgets/<str:budget>/clusters/",
        budgets.BudgetClustersView.as_view(),
        name="budget-clusters",
    ),
    path(
        f"{POOL}/budgets/<str:budget>/history/",
        budgets.BudgetHistoryView.as_view(),
        name="budget-history",
    ),
    path(f"{POOL}/service-units/", service_units.ServiceUnitsView.as_view(), name="service-units"),
    path("webhooks/", webhooks.WebhooksView.as_view(), name="webhooks"),
    path(f"{WEBHOOK}/", webhooks.WebhookView.as_view(), name="webhook"),
    path(f"{WEBHOOK}/test/", deliveries.TestWebhookView.as_view(), name="webhook-test"),
    path(f"{WEBHOOK}/rotate-secret/", webhooks.RotateSecretView.as_view(), name="webhook-rotate"),
    path(f"{WEBHOOK}/deliveries/", deliveries.DeliveriesView.as_view(), name="deliveries"),
    path(
        f"{WEBHOOK}/deliveries/<str:delivery>/resend/",
        deliveries.ResendView.as_view(),
        name="resend",
    ),
    path(
        "focus-schemas/<str:version>/",
        focus_schemas.FocusSchemaView.as_view(),
        name="focus-schema",
    ),
    path("policies/", policies.PoliciesView.as_view(), name="policies"),
]
