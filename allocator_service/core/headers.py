"""Headers that limit the use of answers by browsers.

The API's answers allow nothing, the admin's pages little.
"""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

_PAGES = ("/admin/", "/api/v1/docs/")
_LIVE_PAGES = "/my/"
TENANT_PAGES = (_LIVE_PAGES, "/mail/", "/sign-in/", "/sign-out/")
NOTHING = "default-src 'none'; frame-ancestors 'none'"
# A page that is one file, and loads nothing.
PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
# What every answer has, those of the web server included.
EVERYWHERE = {
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
# Django's admin and our charts style elements where they stand; scripts are files of our own.
OUR_PAGES = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


# The landing page, and where people sign in and end their mail, run no script at all.
SCRIPTLESS = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)


# Tenants' pages keep themselves up to date by scripts that are files of our own, and work without them.
TENANT_POLICY = f"{SCRIPTLESS}; script-src 'self'; connect-src 'self'"


class ContentPolicyMiddleware:
    """Sets `Content-Security-Policy` by path, and the headers of every answer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", _policy(request.path))
        for name, value in EVERYWHERE.items():
            response.headers.setdefault(name, value)
        return response


def _policy(path: str) -> str:
    if path.startswith(_LIVE_PAGES):
        return TENANT_POLICY
    if path.startswith(TENANT_PAGES):
        return SCRIPTLESS
    return OUR_PAGES if path.startswith(_PAGES) else NOTHING
