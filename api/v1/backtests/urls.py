from django.urls import path

from api.v1.backtests.views import (
    BacktestCancelView,
    BacktestResultsView,
    BacktestsView,
    BacktestView,
)

urlpatterns = [
    path("backtests/", BacktestsView.as_view(), name="backtests"),
    path("backtests/<str:backtest>/", BacktestView.as_view(), name="backtest"),
    path("backtests/<str:backtest>/cancel/", BacktestCancelView.as_view(), name="backtest-cancel"),
    path(
        "backtests/<str:backtest>/results/", BacktestResultsView.as_view(), name="backtest-results"
    ),
]
