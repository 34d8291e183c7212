"""Names the operator who acts in the admin, so that the audit can."""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from allocator_service.core.audit import acting_as


class AdminActorMiddleware:
    """Runs a request of a logged-in user as that user, with the `reason` it carries."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path.startswith("/admin/") or not request.user.is_authenticated:
            return self.get_response(request)
        with acting_as(
            f"user {request.user.get_username()}", reason=request.POST.get("reason", "")
        ):
            return self.get_response(request)
