"""Base of the tenants' pages, with sign-in, rate limit and errors."""

import math
from functools import cached_property
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views import View

from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import pool_get
from allocator_service.tenants.models import Tenant
from api.auth import Caller
from api.contract.errors import TooManyRequests, domain_error
from api.contract.fields import is_slug
from api.limiter import limiter
from api.pages.errors import refusal_page
from api.pages.rendering import PageResponse, page
from api.pages.sessions import SignedOutError, Visitor, leave_pages, signed_in
from api.subtrees import Subtree, subtree_of


class PageView(View):
    """A page, whose errors are pages, too."""

    http_method_names = ["get", "head"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return self.answer(request, *args, **kwargs)
        except Exception as exc:
            error = domain_error(exc)
            # A bug, which Django logs and answers.
            if error is None:
                raise
            return refusal_page(error, request)

    def answer(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return super().dispatch(request, *args, **kwargs)


class VisitorPage(PageView):
    """A page of a signed-in visitor. Others are sent to sign in, and come back."""

    visitor: Visitor

    def answer(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            visitor = signed_in(request, now=utc_now())
        except SignedOutError as error:
            # Or each next page would report the same end again.
            leave_pages(request)
            return _to(reverse("sign-in"), next=request.get_full_path(), ended=error.why)
        if visitor is None:
            return _to(reverse("sign-in"), next=request.get_full_path())
        self.visitor = visitor
        # After the sign-in, whose holder is limited as by the API: pages are no way around its rate.
        self._refuse_too_many()
        return self.answer_visitor(request, *args, **kwargs)

    def answer_visitor(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return super().answer(request, *args, **kwargs)

    def shown(self, template: str, *, status: int = HTTPStatus.OK, **content: Any) -> PageResponse:
        """The page with who is signed in at its top."""
        visitor = self.visitor
        at_top = {"tenant": visitor.caller.tenant, "of_group": visitor.group, "visitor": visitor}
        return page(self.request, template, {**at_top, **content}, status=status)

    def _refuse_too_many(self) -> None:
        environment = settings.ENVIRONMENT
        wait = limiter().wait_seconds(
            key=self.visitor.caller.holder_id,
            rate=environment.throttle_rate,
            burst=environment.throttle_burst,
        )
        if wait > 0:
            # `Retry-After` has whole seconds (RFC 9110): a lesser number would be refused once more.
            raise TooManyRequests("Too many requests.", retry_after=math.ceil(wait))


class ChosenPage(VisitorPage):
    """A page of one of the visitor's tenants and groups, of which several ask for a choice first."""

    def answer_visitor(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if self.caller.tenant is None and self.caller.group is None:
            return _to(reverse("my-tenant"), next=request.get_full_path())
        return self.answer_chosen(request, *args, **kwargs)

    def answer_chosen(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return super().answer_visitor(request, *args, **kwargs)

    @property
    def caller(self) -> Caller:
        return self.visitor.caller


class TenantPage(ChosenPage):
    """A page of a tenant, absent for visitors of a group."""

    def answer_chosen(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if self.caller.tenant is None:
            raise _nothing()
        return super().answer_chosen(request, *args, **kwargs)

    @property
    def tenant(self) -> Tenant:
        """The tenant of the page."""
        assert self.caller.tenant is not None  # noqa: S101 # others were sent away
        return self.caller.tenant


class PoolPage(TenantPage):
    """A page below a pool, which only its members see.

    `retired`: what it shows is there after the pool was closed.
    """

    retired: ClassVar[bool] = False

    @property
    def pool(self) -> Pool:
        """The pool of the path. Raises `Missing` unless the tenant may see it."""
        slug = str(self.kwargs["pool"])
        if not is_slug(slug):
            raise Missing("There is no such pool.", code="pool.not_found")
        return pool_get(slug=slug, tenant=self.tenant, retired=self.retired)


class SubtreePage(ChosenPage):
    """A page of a group, absent for visitors of a tenant.

    `retired`: present after the pool was closed.
    """

    retired: ClassVar[bool] = False

    def answer_chosen(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if self.caller.group is None:
            raise _nothing()
        return super().answer_chosen(request, *args, **kwargs)

    @cached_property
    def subtree(self) -> Subtree:
        """The part of the pool's tree that the visitor sees. Raises `Missing` if the pool was closed."""
        assert self.caller.group is not None  # noqa: S101 # others were refused
        pool = pool_get(slug=self.caller.pool, tenant=None, retired=self.retired)
        return subtree_of(group=self.caller.group, pool=pool)


class NothingPage(PageView):
    """Any other path, which is not found."""

    def get(self, request: HttpRequest, **_: str) -> HttpResponseBase:
        raise _nothing()


def _nothing() -> Missing:
    return Missing("There is nothing at this path.")


def see(name: str, *args: Any) -> HttpResponseRedirect:
    """Return the address of the page that shows the result of a form."""
    return _to(reverse(name, args=args))


def _to(path: str, **asked: str) -> HttpResponseRedirect:
    response = HttpResponseRedirect(f"{path}?{urlencode(asked)}" if asked else path)
    response["Cache-Control"] = "no-store"
    return response
