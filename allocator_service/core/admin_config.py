"""Django's admin with the site of `core.admin_site`."""

from django.contrib.admin.apps import AdminConfig


class OperatorAdminConfig(AdminConfig):
    default_site = "allocator_service.core.admin_site.OperatorSite"
