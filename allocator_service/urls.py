"""Every route of the process: operations, the admin and the API."""

from django.contrib import admin
from django.urls import include, path

admin.site.site_header = "Allocation service"
admin.site.site_title = "Allocation service"
admin.site.index_title = "Pools, tenants and decisions"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("api.urls")),
]
