"""The sign-ins in the admin, with attempts that count against a name, failures and successes."""

from typing import Any, ClassVar

from axes.admin import AccessAttemptAdmin, AccessFailureLogAdmin, AccessLogAdmin
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib import admin

from allocator_service.core.saved_filters import SavedFiltersAdmin
from allocator_service.core.shown_fields import instant


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
class AttemptAdmin(SignInAdmin, AccessAttemptAdmin):  # type: ignore[misc] # axes has no types
    appears = "An attempt appears when a sign-in with a password fails."
    list_display = ("at", "username", "network", "page", "failures_since_start", "status")


@admin.register(AccessLog)
class SuccessAdmin(SignInAdmin, AccessLogAdmin):  # type: ignore[misc] # axes has no types
    appears = "A row appears with each sign-in with a password."
    list_display = ("at", "username", "network", "page", "signed_out_at")

    @admin.display(description="signed out", ordering="logout_time", empty_value="-")
    def signed_out_at(self, row: AccessLog) -> Any:
        return instant(row.logout_time)


@admin.register(AccessFailureLog)
class FailureAdmin(SignInAdmin, AccessFailureLogAdmin):  # type: ignore[misc] # axes has no types
    appears = "A row appears with each sign-in that fails."
    list_display = ("at", "username", "network", "page", "locked_out")
    list_filter = ("attempt_time", "locked_out")
