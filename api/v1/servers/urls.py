from django.urls import path

from api.v1.servers.views import ActivateView, DrainView, RetireView, ServersView, ServerView

_SERVER = "pools/<str:pool>/servers/<str:server>/"

urlpatterns = [
    path("pools/<str:pool>/servers/", ServersView.as_view(), name="servers"),
    path(_SERVER, ServerView.as_view(), name="server"),
    path(f"{_SERVER}drain/", DrainView.as_view(), name="server-drain"),
    path(f"{_SERVER}activate/", ActivateView.as_view(), name="server-activate"),
    path(f"{_SERVER}retire/", RetireView.as_view(), name="server-retire"),
]
