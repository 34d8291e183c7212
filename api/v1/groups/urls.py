from django.urls import path

from api.v1.groups.views import GroupHistoryView, GroupsView, GroupView

urlpatterns = [
    path("pools/<str:pool>/groups/", GroupsView.as_view(), name="groups"),
    path("pools/<str:pool>/groups/<str:group>/", GroupView.as_view(), name="group"),
    path(
        "pools/<str:pool>/groups/<str:group>/history/",
        GroupHistoryView.as_view(),
        name="group-history",
    ),
]
