"""Tenants, which operators register and each tenant's own keys see."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Unacceptable
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_for
from allocator_service.tenants.services import (
    TenantDraft,
    tenant_retire,
    tenant_update,
    tenants_create,
)
from api.auth import EVERY_SCOPE, OPERATOR
from api.contract import documents
from api.contract.bulk import Items
from api.contract.operations import creates, lists, retires, shows, updates
from api.contract.pagination import by_slug
from api.contract.parameters import PageParameters
from api.resources import Resource
from api.views import writes


class TenantDocument(documents.Document):
    slug = documents.SlugField(writable=True)
    name = documents.TextField(max_length=200, writable=True)
    version = documents.VersionField()
    created_at = documents.TimestampField()


TenantRequest = TenantDocument.writable("TenantRequest")


class TenantResource(Resource):
    document = TenantDocument
    change = TenantRequest
    fixed = ("slug",)
    lookup = "slug"
    not_found = "tenant.not_found"
    ordering = by_slug("tenants")

    def queryset(self) -> QuerySet[Tenant]:
        return tenants_for(self.tenant)

    def update(self, found: Tenant, fields: Mapping[str, Any], version: int) -> Tenant:
        return tenant_update(tenant=found, name=fields["name"], version=version, now=utc_now())

    def retire(self, found: Tenant, version: int) -> None:
        tenant_retire(tenant=found, version=version, now=utc_now())


class TenantsView(TenantResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = PageParameters
    large = True

    @lists(TenantDocument, "List tenants")
    def get(self, request: Request) -> Response:
        """List the tenants that are not retired, by slug.

        Operator and billing keys see all of them, a tenant key sees only its own.
        """
        return self.answer_list()

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
        return self.answer_many_created(TenantRequest, self._create)

    def _create(self, items: Items) -> Sequence[str]:
        drafts = [
            TenantDraft(**fields, pointer=items.pointer(index))
            for index, fields in enumerate(items.fields)
        ]
        return [tenant.slug for tenant in tenants_create(drafts=drafts, now=utc_now())]


class TenantView(TenantResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "PATCH": OPERATOR, "DELETE": OPERATOR}

    @shows(TenantDocument, "Show a tenant")
    def get(self, request: Request, tenant: str) -> Response:
        """Show one tenant. A change sends its `ETag` as `If-Match`.

        A tenant key can read only its own tenant; any other slug, like that of a retired tenant,
        answers 404 `tenant.not_found`.
        """
        return self.answer_one(self.find(tenant))

    @updates(TenantRequest, TenantDocument, "Rename a tenant")
    @writes
    def patch(self, request: Request, tenant: str) -> Response:
        """Change the name of a tenant by JSON merge patch.

        Operators only. Send the `ETag` that you read as `If-Match`: without it the answer is 428
        `version.required`, with an old one 412 `version.stale`. The slug cannot change (422
        `field.immutable`).
        """
        return self.answer_update(tenant)

    @retires("Retire a tenant and revoke its keys")
    @writes
    def delete(self, request: Request, tenant: str) -> Response:
        """Retire a tenant and revoke all of its keys at once.

        Operators only, with `If-Match`. A tenant with servers that are not retired or workloads
        that are not withdrawn is refused with 409 `in_use`. Its history stays, and its slug is not
        given to another tenant.
        """
        return self.answer_retire(tenant)


def tenant_named(slug: str) -> Tenant:
    """Return the tenant that the field `tenant` of a body names. Raises `Unacceptable`."""
    tenant = tenants_for(None).filter(slug=slug).first()
    if tenant is None:
        raise Unacceptable(
            f'No tenant has the slug "{slug}".', code="tenant.unknown", pointer="/tenant"
        )
    return tenant
