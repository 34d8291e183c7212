"""Signing in to tenants' pages and to the admin by an OpenID Connect provider."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse

from allocator_service.core.audit import acting_as
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from allocator_service.settings.environment import OidcProvider
from allocator_service.tenants.models import Person
from allocator_service.tenants.people import RoleGroups, open_pages, person_admit
from api.contract.errors import TooManyRequests
from api.pages.provider import (
    Declined,
    NotBegun,
    ProvenPerson,
    SignInFailed,
    Unproven,
    Unreachable,
    begin,
    end_address,
    finish,
)
from api.pages.rendering import PageResponse, page
from api.pages.sessions import sign_in_person
from api.pages.signing_in import local_address, wait_of
from api.pages.views import PageView

log = structlog.get_logger(__name__)

_TENANTS, _ADMIN = "my-pools", "admin:index"


@dataclass(frozen=True)
class Refusal:
    """The status of a refusal with a title and a sentence for the provider's name."""

    status: int
    title: str
    sentence: str


# The text of each failure for the visitor. The log has the rest.
_FAILED: Mapping[type[SignInFailed], Refusal] = {
    NotBegun: Refusal(
        HTTPStatus.BAD_REQUEST,
        "This sign-in cannot be continued",
        "It was begun in another browser or more than 15 minutes ago, or was used already.",
    ),
    Declined: Refusal(
        HTTPStatus.FORBIDDEN,
        "You were not signed in",
        "{provider} did not sign you in, or you went back.",
    ),
    Unreachable: Refusal(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "{provider} cannot be reached",
        "It does not answer, or not in a way that this service can read. Try again in a moment;"
        " if that does not help, ask your operator.",
    ),
    Unproven: Refusal(
        HTTPStatus.FORBIDDEN,
        "Your sign-in could not be verified",
        "What {provider} answered does not prove who you are. Try again; if that does not help,"
        " ask your operator.",
    ),
}
_NO_ROLE = Refusal(
    HTTPStatus.FORBIDDEN,
    "You have no role here",
    "{provider} knows you, but none of your groups there belongs to a tenant, to a group of a pool or"
    " to a role of this service. Ask your operator to connect one of your groups with yours, or the"
    " administrator of {provider} to put you into a group that is connected.",
)
_DISABLED = Refusal(
    HTTPStatus.FORBIDDEN,
    "Your account is disabled",
    "An administrator of this service has disabled it. Ask your operator to have it enabled again.",
)


class ProviderView(PageView):
    """A route that is there where a provider is configured."""

    http_method_names = ["get"]

    def answer(self, request: HttpRequest, *args: str, **kwargs: str) -> HttpResponseBase:
        if settings.ENVIRONMENT.oidc is None:
            raise Missing("There is nothing at this path.")
        # By network, because the visitor is not known before the sign-in.
        wait = wait_of(request)
        if wait > 0:
            raise TooManyRequests("Too many attempts.", retry_after=wait)
        try:
            response = super().answer(request, *args, **kwargs)
        except SignInFailed as failure:
            log.warning(
                "oidc_sign_in_failed", why=type(failure).__name__, detail=str(failure)[:500]
            )
            return self.refused(_FAILED[type(failure)])
        # The addresses of its redirects have the state of one sign-in, which is used once.
        response.headers["Cache-Control"] = "no-store"
        return response

    @property
    def provider(self) -> OidcProvider:
        assert settings.ENVIRONMENT.oidc is not None  # noqa: S101 # else there is no route
        found: OidcProvider = settings.ENVIRONMENT.oidc
        return found

    def refused(self, refusal: Refusal) -> PageResponse:
        texts = {"title": refusal.title, "sentence": refusal.sentence}
        content = {key: text.format(provider=self.provider.name) for key, text in texts.items()}
        return page(self.request, "refusal", {**content, "again": True}, status=refusal.status)


class BeginView(ProviderView):
    """Redirect `/sign-in/oidc/` to the provider's page. `?next=` is where one goes afterwards."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        # Checked before it is stored, because the redirect back follows it without a question.
        next_page = local_address(request.GET.get("next", ""), below=(_TENANTS, _ADMIN))
        address = begin(
            request,
            provider=self.provider,
            back_to=request.build_absolute_uri(reverse("back-from-provider")),
            next_page=next_page,
            now=utc_now(),
        )
        return HttpResponseRedirect(address)


class ReturnView(ProviderView):
    """Page `/sign-in/oidc/callback/`, to which the provider sends its answer."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        now, provider = utc_now(), self.provider
        proven = finish(request, provider=provider, now=now)
        groups = RoleGroups(
            provider.operator_group, provider.auditor_group, provider.pool_operator_prefix
        )
        with acting_as(f"provider {provider.issuer}"[:200]):
            person = person_admit(identity=proven.identity, role_groups=groups, now=now)
        if person is None:
            log.warning("oidc_no_role", subject=proven.identity.subject)
            return self.refused(_NO_ROLE)
        if not person.user.is_active:
            log.warning("oidc_disabled", user=person.user.get_username())
            return self.refused(_DISABLED)
        sign_in_person(request, person, now=now)
        log.info("oidc_signed_in", user=person.user.get_username())
        return HttpResponseRedirect(_address_for(person, proven))


class ProviderSignOutView(ProviderView):
    """Action `/sign-out/oidc/`, which signs out of the provider, too, if it has a page for that."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        back_to = request.build_absolute_uri(reverse("sign-in"))
        address = end_address(provider=self.provider, back_to=back_to)
        return HttpResponseRedirect(address or back_to)


def _address_for(person: Person, proven: ProvenPerson) -> str:
    """Return the page that the person asked for, if it may be seen, else the first that may."""
    to_admin = proven.next_page.startswith(reverse(_ADMIN))
    if to_admin and not person.user.is_staff:
        return reverse(_TENANTS)
    if not to_admin and not open_pages(person.groups):
        return reverse(_ADMIN)
    return proven.next_page
