"""Tenants: registered by operators, each seen by its own keys."""

from contextlib import nullcontext
from http import HTTPStatus
from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenant_get, tenants_for
from allocator_service.tenants.services import (
    TenantDraft,
    tenant_retire,
    tenant_update,
    tenants_create,
)
from api.auth import EVERY_SCOPE, OPERATOR
from api.contract.bodies import is_csv, rows_named
from api.contract.bulk import created_document, read_items
from api.contract.conditional import entity_tag, expected_version
from api.contract.fields import is_slug
from api.contract.pagination import by_slug
from api.contract.parameters import PageParameters
from api.openapi.describing import creates, lists, retires, shows, updates
from api.v1.tenants.serializers import (
    TenantDocument,
    TenantRequest,
    tenant_document,
    tenant_fields,
)
from api.views import ContractView, writes

ORDERING = by_slug("tenants")


class TenantsView(ContractView):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = PageParameters
    large = True

    @lists(TenantDocument, "List tenants")
    def get(self, request: Request) -> Response:
        """List the tenants that are not retired, by slug.

        Operator and billing keys see all of them, a tenant key sees only its own.
        """
        page = ORDERING.page(tenants_for(self.tenant), **self.query)
        return self.listing(page, tenant_document, list(TenantDocument.fields))

    @creates(TenantRequest, TenantDocument, "Register tenants", bulk=True, named=True)
    @writes
    def post(self, request: Request) -> Response:
        """Register one tenant, or many at once as a JSON array or as CSV, each under a slug that
        never changes.

        Operators only. A bulk request is all-or-nothing, names the failing item, takes at most
        10,000 tenants (413 `tenants.too_many`) and answers with the slugs of the first and the
        last. A slug that any tenant has, even a retired one, is refused with 409 `tenant.exists`. A
        new tenant is in no pool yet: admit it as a member of each pool that it is to share.
        """
        with rows_named() if is_csv(request) else nullcontext():
            items = read_items(TenantRequest, self.sent(), cells=is_csv(request))
            drafts = [
                TenantDraft(**fields, pointer=items.pointer(index))
                for index, fields in enumerate(items.fields)
            ]
            tenants = tenants_create(drafts=drafts, now=utc_now())
        if not items.alone:
            document = created_document([tenant.slug for tenant in tenants])
            return Response(document, HTTPStatus.CREATED)
        response = _shown(tenants[0], HTTPStatus.CREATED)
        response["Location"] = f"{request.path}{tenants[0].slug}/"
        return response


class TenantView(ContractView):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "PATCH": OPERATOR, "DELETE": OPERATOR}

    @shows(TenantDocument, "Show a tenant")
    def get(self, request: Request, tenant: str) -> Response:
        """Show one tenant; its `ETag` is what a change sends as `If-Match`.

        A tenant key can read only its own tenant; any other slug, like that of a retired tenant,
        answers 404 `tenant.not_found`.
        """
        return _shown(visible_tenant(tenant, self.tenant))

    @updates(TenantRequest, TenantDocument, "Rename a tenant")
    @writes
    def patch(self, request: Request, tenant: str) -> Response:
        """Change the name of a tenant by JSON merge patch.

        Operators only. Send the `ETag` that you read as `If-Match`: without it the answer is 428
        `version.required`, with an old one 412 `version.stale`. The slug cannot change (422
        `field.immutable`).
        """
        present = visible_tenant(tenant, self.tenant)
        version = expected_version(request, actual=present.version)
        current = tenant_fields(present)
        fields = self.patched(TenantRequest, current, fixed=["slug"])
        return _shown(
            tenant_update(tenant=present, name=fields["name"], version=version, now=utc_now())
        )

    @retires("Retire a tenant and revoke its keys")
    @writes
    def delete(self, request: Request, tenant: str) -> Response:
        """Retire a tenant and revoke all of its keys at once.

        Operators only, with `If-Match`. A tenant with servers that are not retired or workloads
        that are not withdrawn is refused with 409 `in_use`. Its history stays, and its slug is not
        given to another tenant.
        """
        present = visible_tenant(tenant, self.tenant)
        version = expected_version(request, actual=present.version)
        tenant_retire(tenant=present, version=version, now=utc_now())
        return Response(status=HTTPStatus.NO_CONTENT)


def visible_tenant(slug: str, tenant: Tenant | None) -> Tenant:
    """The tenant of this slug, if the caller may see it. Raises `Missing`."""
    if not is_slug(slug):
        raise Missing("There is no such tenant.", code="tenant.not_found")
    return tenant_get(slug=slug, within=tenants_for(tenant))


def _shown(tenant: Tenant, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(
        tenant_document(tenant), status=status, headers={"ETag": entity_tag(tenant.version)}
    )
