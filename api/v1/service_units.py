"""Banks of service units, which operators fill and usage empties."""

from http import HTTPStatus
from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.billing.service_units import banks_of, units_grant
from allocator_service.core.clock import utc_now
from api.auth import EVERY_SCOPE, OPERATOR
from api.contract import documents
from api.contract.operations import creates, lists
from api.contract.pagination import page_of_sorted
from api.contract.parameters import PageParameters
from api.resources import PoolResource
from api.v1.tenants import tenant_named
from api.views import writes


class BankDocument(documents.Document):
    pool = documents.pool_field()
    tenant = documents.SlugField(source="tenant.slug")
    since = documents.TimestampField(description="Of the first grant.")
    granted = documents.DecimalField()
    used = documents.DecimalField()
    balance = documents.DecimalField()


class GrantRequest(documents.Document):
    tenant = documents.SlugField()
    units = documents.PriceField(what="A grant", description="Service units, above 0.")
    reason = documents.TextField(max_length=2_000, blank=True, default="")


class ServiceUnitsView(PoolResource):
    scopes: ClassVar = {"GET": EVERY_SCOPE, "POST": OPERATOR}
    parameters = PageParameters
    document = BankDocument

    @lists(BankDocument, "List banks of service units; a tenant sees its own")
    def get(self, request: Request, pool: str) -> Response:
        """List the pool's banks of service units, with amounts granted and used and the balance.

        A tenant has a bank from its first grant on. `used` is quantity × seconds × weight of all that
        it used since, by the `unit_weights` of the price plans. A tenant key sees its own bank only.
        """
        banks = banks_of(pool=self.pool, now=utc_now(), tenant=self.tenant)
        name = f"service-units/{self.pool.slug}"
        page = page_of_sorted(name, banks, lambda bank: [bank.tenant.slug], **self.query)
        return self.answer_page(page)

    @creates(
        GrantRequest, BankDocument, "Put service units into a tenant's bank", headers=("Location",)
    )
    @writes
    def post(self, request: Request, pool: str) -> Response:
        """Grant service units to a tenant's bank, and open the bank with the first grant.

        Only operators may. The units are above 0 (422 `units.amount`). A bank that has run out gives
        the event `service_units.exhausted`, once after each grant, and makes its tenant a best-effort
        member if the price plan's `exhausted` requires it; a grant does not undo that. Each request
        grants again: send an `Idempotency-Key` to repeat one safely.
        """
        fields = self.read(GrantRequest)
        tenant, now = tenant_named(fields["tenant"]), utc_now()
        grant = units_grant(
            pool=self.pool, tenant=tenant, units=fields["units"], reason=fields["reason"], now=now
        )
        (bank,) = banks_of(pool=self.pool, now=now, tenant=grant.tenant)
        # A grant has no route of its own: the list has the bank that it went into.
        headers = {"Location": request.path}
        return Response(self.write(bank), HTTPStatus.CREATED, headers=headers)
