"""The root of the API, with links to its collections, and the page for browsers."""

from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service import __version__
from allocator_service.allocation.policies import policy_documents
from allocator_service.core.headers import SCRIPTLESS
from api.contract.operations import shows
from api.contract.renderers import HTMLRenderer, OrjsonRenderer
from api.situations import situation_rows
from api.views import OpenView
from policies.fields import Document, DocumentField, TextField


def _link() -> TextField:
    return TextField(max_length=2000)


class CollectionsDocument(Document):
    tenants = _link()
    pools = _link()
    policies = _link()
    evaluations = _link()
    comparisons = _link()
    backtests = _link()
    events = _link()
    ledger_entries = _link()
    price_plans = _link()
    webhooks = _link()


class RootDocument(Document):
    version = TextField(max_length=50)
    documentation = _link()
    openapi = _link()
    collections = DocumentField(CollectionsDocument)


class RootView(OpenView):
    """`/api/v1/`."""

    @shows(RootDocument, "Find the collections and the documentation", headers=())
    def get(self, request: Request) -> Response:
        """Link to the collections of the API, to its documentation and to its OpenAPI document.

        It needs no key and names the version of the service. Links are absolute and use the host of
        the request.
        """
        return Response(_root(request))


class LandingView(OpenView):
    """`/`, a page for browsers and the links of `/api/v1/` for programs."""

    # The document has `/api/v1/`, which answers programs the same.
    schema = None

    def get_renderers(self) -> list[BaseRenderer]:
        return [OrjsonRenderer(), HTMLRenderer()]

    def get(self, request: Request) -> Response:
        if request.accepted_renderer.format == OrjsonRenderer.format:
            # The same address is a page for browsers, and a cache has to keep both.
            return Response(_root(request), headers={"Vary": "Accept"})
        provider = settings.ENVIRONMENT.oidc
        context = {
            "origin": request.build_absolute_uri("/").removesuffix("/"),
            "policies": policy_documents(),
            "situations": situation_rows(),
            "provider": None if provider is None else provider.name,
            "version": __version__,
        }
        page = render_to_string("api/landing.html", context)
        headers = {"Content-Security-Policy": SCRIPTLESS, "Vary": "Accept"}
        return Response(page, headers=headers)


def _root(request: Request) -> dict[str, Any]:
    def link(name: str) -> str:
        return request.build_absolute_uri(reverse(name))

    return {
        "version": __version__,
        "documentation": link("docs"),
        "openapi": link("schema"),
        "collections": {name: link(name.replace("_", "-")) for name in CollectionsDocument.fields},
    }
