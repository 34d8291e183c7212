"""Pages on which mail about a tenant is chosen, confirmed and ended."""

import math
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_exempt

from allocator_service.core.addresses import client_network
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import DomainError
from allocator_service.mail.models import MailKind
from allocator_service.mail.subscriptions import (
    subscription_confirm,
    subscription_end,
    subscription_of_token,
    subscription_put,
    subscription_remove,
    subscriptions_of,
)
from api.contract.errors import TooManyRequests
from api.limiter import ADDRESS_BURST, ADDRESS_RATE, limiter
from api.pages.rendering import page
from api.pages.views import PageView, TenantPage, see

# Each new address gets a mail to confirm it.
REQUESTS_PER_SECOND, REQUESTS_AT_ONCE = 10 / 86_400, 10


class MailForm(forms.Form):
    """An address and the kinds of news that it gets."""

    address = forms.EmailField(
        max_length=254,
        help_text="A mail with a link goes there first. Nothing else is sent before it is confirmed.",
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
        error_messages={"invalid": "Enter an address such as ada@example.org."},
    )
    kinds = forms.MultipleChoiceField(
        label="What to send",
        choices=MailKind.choices,
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one kind of news."},
    )


class MailPage(TenantPage):
    """`/my/mail/` with the addresses that the visitor has chosen and a form for one."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponseBase:
        return self._answer(MailForm(initial=self._initial(request.GET.get("address", ""))))

    def post(self, request: HttpRequest) -> HttpResponseBase:
        form = MailForm(request.POST)
        if form.is_valid():
            self._refuse_flood(form.cleaned_data["address"])
            try:
                subscription_put(
                    tenant=self.tenant,
                    holder=self.caller.holder_id,
                    now=utc_now(),
                    **form.cleaned_data,
                )
                return see("my-mail")
            except DomainError as error:
                form.add_error(None, error.detail)
        return self._answer(form, status=HTTPStatus.UNPROCESSABLE_ENTITY)

    def _refuse_flood(self, address: str) -> None:
        if self._chosen().filter(address=address, confirmed_at__isnull=False).exists():
            return  # no mail to confirm it
        wait = limiter().address_wait_seconds(
            # By tenant, not by visitor: each new address is sent a mail, and might be a stranger's.
            address=f"mail:{self.tenant.pk}",
            rate=REQUESTS_PER_SECOND,
            burst=REQUESTS_AT_ONCE,
        )
        if wait > 0:
            raise TooManyRequests(
                "Too many new addresses were given for this tenant.", retry_after=math.ceil(wait)
            )

    def _initial(self, address: str) -> dict[str, Any]:
        """Return the choice for one of the visitor's addresses."""
        found = self._chosen().filter(address=address).first()
        # Without the weekly mail, which is of no event: it has to be asked for.
        if found is None:
            return {"kinds": [kind for kind in MailKind.values if kind != MailKind.WEEKLY]}
        return {"address": found.address, "kinds": found.kinds}

    def _chosen(self) -> Any:
        return subscriptions_of(tenant=self.tenant, holder=self.caller.holder_id)

    def _answer(self, form: MailForm, status: int = HTTPStatus.OK) -> HttpResponseBase:
        labels = dict(MailKind.choices)
        rows = [
            {"subscription": each, "kinds": [labels[kind] for kind in each.kinds]}
            for each in self._chosen()
        ]
        configured = settings.ENVIRONMENT.mail is not None
        return self.shown("mail", status=status, rows=rows, form=form, configured=configured)


class EndMailView(TenantPage):
    """End of one of the visitor's subscriptions."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, subscription: UUID) -> HttpResponseBase:
        # A second click finds nothing to end, and leads to the same page.
        subscription_remove(
            tenant=self.tenant, holder=self.caller.holder_id, subscription=subscription
        )
        return see("my-mail")


class _LinkPage(PageView):
    """A page behind a link in a mail, whose token is the permission.

    Programs that open links in mails only read.
    """

    http_method_names = ["get", "head", "post"]

    def answer(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        wait = limiter().address_wait_seconds(
            address=f"mail-link:{client_network(request)}", rate=ADDRESS_RATE, burst=ADDRESS_BURST
        )
        if wait > 0:
            raise TooManyRequests("Too many requests.", retry_after=math.ceil(wait))
        return super().answer(request, *args, **kwargs)


class ConfirmMailPage(_LinkPage):
    """Consent of the owner of an address."""

    def get(self, request: HttpRequest, token: str) -> HttpResponseBase:
        found = subscription_of_token(token=token, purpose="confirm")
        return page(request, "mail_link", {"subscription": found, "purpose": "confirm"})

    def post(self, request: HttpRequest, token: str) -> HttpResponseBase:
        found = subscription_confirm(token=token, now=utc_now())
        return page(request, "mail_link", {"subscription": found, "done": "confirmed"})


# A mail program posts without cookies (RFC 8058 §3.1). The token is the permission.
@method_decorator(csrf_exempt, name="dispatch")
class EndMailPage(_LinkPage):
    """End of a subscription by its owner, or by a mail program with one click (RFC 8058)."""

    def get(self, request: HttpRequest, token: str) -> HttpResponseBase:
        found = subscription_of_token(token=token, purpose="end")
        return page(request, "mail_link", {"subscription": found, "purpose": "end"})

    def post(self, request: HttpRequest, token: str) -> HttpResponseBase:
        subscription_end(token=token)
        return page(request, "mail_link", {"done": "ended"})
