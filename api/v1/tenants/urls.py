from django.urls import path

from api.v1.tenants.views import TenantsView, TenantView

urlpatterns = [
    path("tenants/", TenantsView.as_view(), name="tenants"),
    path("tenants/<str:tenant>/", TenantView.as_view(), name="tenant"),
]
