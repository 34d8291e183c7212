from django.urls import path

from api.v1.members.history import AllocationHistoryView
from api.v1.members.views import MembersView, MemberView

urlpatterns = [
    path("pools/<str:pool>/members/", MembersView.as_view(), name="members"),
    path("pools/<str:pool>/members/<str:tenant>/", MemberView.as_view(), name="member"),
    path(
        "pools/<str:pool>/members/<str:tenant>/allocation-history/",
        AllocationHistoryView.as_view(),
        name="allocation-history",
    ),
]
