"""Users and their sign-ins in the admin."""

from typing import Any, ClassVar

from axes.admin import AccessAttemptAdmin, AccessFailureLogAdmin, AccessLogAdmin
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User

from allocator_service.core.saved_filters import SavedFiltersAdmin
from allocator_service.core.shown_fields import instant


class AccountAdmin(UserAdmin):  # type: ignore[type-arg]
    """Users, whose dates cannot be changed."""

    readonly_fields = ("signed_in_at", "joined_at")
    fieldsets = (
        *(UserAdmin.fieldsets or ())[:-1],
        ("Important dates", {"fields": readonly_fields}),
    )

    @admin.display(description="last sign-in", empty_value="-")
    def signed_in_at(self, user: User) -> Any:
        return instant(user.last_login)

    @admin.display(description="joined")
    def joined_at(self, user: User) -> Any:
        return instant(user.date_joined)


admin.site.unregister(User)
admin.site.register(User, AccountAdmin)


class SignInAdmin(SavedFiltersAdmin):
    """A list of sign-ins, whose pages also state the browser."""

    date_hierarchy = None
    list_filter: ClassVar[Any] = ["attempt_time"]
    filter_titles: ClassVar = {"attempt_time": "Time", "locked_out": "Locked out"}

    @admin.display(description="time", ordering="attempt_time")
    def at(self, row: Any) -> Any:
        return instant(row.attempt_time)

    @admin.display(description="network", ordering="ip_address")
    def network(self, row: Any) -> str:
        return str(row.ip_address or "-")

    @admin.display(description="page", ordering="path_info")
    def page(self, row: Any) -> str:
        return str(row.path_info)


@admin.register(AccessAttempt)
class AttemptAdmin(SignInAdmin, AccessAttemptAdmin):
    appears = "An attempt appears when a sign-in with a password fails."
    list_display = ("at", "username", "network", "page", "failures_since_start", "status")


@admin.register(AccessLog)
class SuccessAdmin(SignInAdmin, AccessLogAdmin):
    appears = "A row appears with each sign-in with a password."
    list_display = ("at", "username", "network", "page", "signed_out_at")

    @admin.display(description="signed out", ordering="logout_time", empty_value="-")
    def signed_out_at(self, row: AccessLog) -> Any:
        return instant(row.logout_time)


@admin.register(AccessFailureLog)
class FailureAdmin(SignInAdmin, AccessFailureLogAdmin):
    appears = "A row appears with each sign-in that fails."
    list_display = ("at", "username", "network", "page", "locked_out")
    list_filter = ("attempt_time", "locked_out")
