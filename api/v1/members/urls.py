from django.urls import path

from api.v1.members.views import MembersView, MemberView

urlpatterns = [
    path("pools/<str:pool>/members/", MembersView.as_view(), name="members"),
    path("pools/<str:pool>/members/<str:tenant>/", MemberView.as_view(), name="member"),
]
