"""Signing in by an API key, and signing out."""

import math
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from allocator_service.core.addresses import client_network
from allocator_service.core.clock import utc_now
from allocator_service.core.lockout import (
    cool_off,
    locked_out,
    sign_in_failed,
    sign_in_succeeded,
)
from allocator_service.tenants.models import Scope
from allocator_service.tenants.services import KEY_PREFIX
from api.auth import live_key
from api.contract.errors import Unauthenticated
from api.limiter import ADDRESS_BURST, ADDRESS_RATE, limiter
from api.pages.rendering import PageResponse, page
from api.pages.sessions import (
    NO_LONGER,
    TOO_LONG,
    choose_group,
    choose_tenant,
    sign_in,
    sign_out,
    signed_in_by_provider,
)
from api.pages.views import PageView, VisitorPage

# What keys of other scopes are for, shown after a try to sign in with one.
_ELSEWHERE: Mapping[str, str] = {
    Scope.OPERATOR: "This is an operator's key. Operators work in the administration, with a user name"
    " and a password; the key is for programs that call the API.",
    Scope.BILLING: "This is a key for billing systems. It is for programs that call the API and has no"
    " pages; your operator can give you a tenant's key as well.",
    Scope.AGENT: "This is the key of an agent beside a scheduler. It has no pages; your operator can"
    " give you a tenant's key.",
}
_WRONG: Mapping[str, str] = {
    "auth.invalid": "This key is not known. Copy all of it, from “alloc_” to its end, or ask your"
    " operator for another one.",
    "auth.revoked": "This key was revoked. Ask your operator for another one.",
    "auth.expired": "This key has expired. Ask your operator for another one.",
}
BY_PROVIDER = "signed-out-here"
# Why a visitor must sign in again.
_ENDED: Mapping[str, str] = {
    "auth.invalid": "You were signed out: your key is no longer known.",
    "auth.revoked": "You were signed out: your key was revoked. Sign in with another one.",
    "auth.expired": "You were signed out: your key has expired. Sign in with another one.",
    TOO_LONG: "You were signed out because you signed in more than 12 hours ago.",
    NO_LONGER: "You were signed out: your account may no longer open these pages.",
    "signed-out": "You are signed out.",
    BY_PROVIDER: "You are signed out here.",
}
_BEGINNING = re.compile(rf"{KEY_PREFIX}[A-Za-z0-9_-]{{6}}", re.ASCII)
_NO_KEY = "not a key"


@method_decorator(sensitive_post_parameters("key"), name="dispatch")
class SignInView(PageView):
    """Page `/sign-in/` of the form, with its result."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponseBase:
        return _form(request, notice=_ENDED.get(request.GET.get("ended", ""), ""))

    @method_decorator(sensitive_variables("text"))
    def post(self, request: HttpRequest) -> HttpResponseBase:
        wait = wait_of(request)
        if wait > 0:
            return _too_often(request, wait)
        text = request.POST.get("key", "").strip()
        if not text:
            return _refused(request, "Paste your key into the field.")
        name = _name_of(text)
        if locked_out(request, name):
            return _too_often(request, math.ceil(cool_off(request).total_seconds()))
        try:
            key = live_key(text)
        except Unauthenticated as error:
            # Counted by the key's beginning as well: guesses from many networks are at one key.
            sign_in_failed(request, name)
            return _refused(request, _WRONG[error.code], status=HTTPStatus.UNAUTHORIZED)
        # After the key is known to be live: the text would otherwise reveal its scope to guesses.
        if key.tenant is None and key.group is None:
            return _refused(request, _ELSEWHERE[key.scope], status=HTTPStatus.FORBIDDEN)
        sign_in_succeeded(request, name)
        sign_in(request, key, now=utc_now())
        return HttpResponseRedirect(_next(request), headers={"Cache-Control": "no-store"})


class SignOutView(PageView):
    """Action `/sign-out/`, by POST only, so that no picture or link of another site does it."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponseBase:
        ended = BY_PROVIDER if signed_in_by_provider(request) else "signed-out"
        sign_out(request)
        return HttpResponseRedirect(
            f"{reverse('sign-in')}?ended={ended}", headers={"Cache-Control": "no-store"}
        )


class ChooseTenantPage(VisitorPage):
    """Choice of one of several tenants and groups whose pages to see."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponseBase:
        return self.shown("choose_tenant", next=local_address(request.GET.get("next", "")))

    def post(self, request: HttpRequest) -> HttpResponseBase:
        if "group" in request.POST:
            choose_group(request, self.visitor, request.POST["group"])
        else:
            choose_tenant(request, self.visitor, request.POST.get("tenant", ""))
        next_page = local_address(request.POST.get("next", ""))
        return HttpResponseRedirect(next_page, headers={"Cache-Control": "no-store"})


def wait_of(request: HttpRequest) -> int:
    """For how many seconds the visitor's network may not try to sign in again."""
    wait = limiter().address_wait_seconds(
        address=f"sign-in:{client_network(request)}", rate=ADDRESS_RATE, burst=ADDRESS_BURST
    )
    return math.ceil(wait)


def _name_of(text: str) -> str:
    """Return the beginning of the key, by which failures are counted and which lists of keys show."""
    found = _BEGINNING.match(text)
    return found[0] if found else _NO_KEY


def local_address(address: str, *, below: Sequence[str] = ("my-pools",)) -> str:
    """Return the page that the visitor asked for if it is below one of these, else the first of them."""
    # A link with another site in `next` would lead there from a sign-in that people trust.
    own = url_has_allowed_host_and_scheme(address, allowed_hosts=None)
    return address if own and address.startswith(tuple(map(reverse, below))) else reverse(below[0])


def _next(request: HttpRequest) -> str:
    return local_address(request.POST.get("next", "") or request.GET.get("next", ""))


def _form(
    request: HttpRequest,
    *,
    notice: str = "",
    wrong: str = "",
    status: int = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> PageResponse:
    content = {
        "notice": notice,
        "wrong": wrong,
        "next": _next(request),
        "provider": settings.ENVIRONMENT.oidc,
        "signed_out_here": request.GET.get("ended") == BY_PROVIDER,
    }
    return page(request, "sign_in", content, status=status, headers=headers)


def _refused(
    request: HttpRequest, wrong: str, *, status: int = HTTPStatus.UNPROCESSABLE_ENTITY
) -> PageResponse:
    return _form(request, wrong=wrong, status=status)


def _too_often(request: HttpRequest, seconds: int) -> PageResponse:
    minutes = math.ceil(seconds / 60)
    wait = f"{seconds} seconds" if seconds < 60 else f"{minutes} minute{'s' * (minutes > 1)}"
    return _form(
        request,
        wrong=f"Too many attempts from your network. Try again in {wait}.",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        headers={"Retry-After": str(seconds)},
    )
