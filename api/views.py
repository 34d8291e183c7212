"""Base classes of routes, for callers, parameters, bodies and answers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, wraps
from typing import Any, ClassVar, Concatenate, NoReturn, ParamSpec, TypeVar, cast

from django.db import transaction
from django.http import HttpResponse
from rest_framework.authentication import BaseAuthentication
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from allocator_service.core.errors import Unavailable
from allocator_service.core.quantities import Resource
from allocator_service.core.selecting import missing
from allocator_service.pools.clusters import labelled_clusters
from allocator_service.pools.models import Pool
from allocator_service.pools.selectors import key_and_pool, resources_of
from allocator_service.tenants.models import ApiKey, Scope, Tenant
from api.auth import ApiKeyAuthentication, Caller
from api.contract.answers import JSON
from api.contract.bodies import parse_body, read_body
from api.contract.documents import merge_patch, read_document, refuse_changed
from api.contract.errors import Forbidden
from api.contract.fields import is_slug
from api.contract.idempotency import idempotency_key, serve_once
from api.contract.operations import Operation
from api.contract.pagination import Page
from api.contract.parameters import PageParameters, Parameters
from api.pseudonyms import groups_known
from api.standby import StandbyRead
from api.subtrees import Subtree, subtree_of
from policies.fields import Document

P = ParamSpec("P")
V = TypeVar("V", bound="ContractView")


class ContractView(APIView):
    """A route of the contract. Subclasses name, per method, the scopes that have it.

    `parameters` are the query parameters of GET, `write_parameters` those of all others; `large`: the
    body of POST may be 32 MiB; `of_a_pool`: the methods that keys bound to a pool have, because they
    show and change nothing of another; `reads_standby`: GET may be answered from a standby. Formats of
    answers and bodies are those of the operation that describes the handler.
    """

    scopes: ClassVar[Mapping[str, frozenset[Scope]]]
    parameters: ClassVar[type[Parameters]] = Parameters
    write_parameters: ClassVar[type[Parameters]] = Parameters
    large: ClassVar[bool] = False
    of_a_pool: ClassVar[Collection[str]] = ()
    reads_standby: ClassVar[bool] = False
    http_method_names = ["get", "post", "put", "patch", "delete", "head"]

    query: Mapping[str, Any]
    columns: Sequence[str] = ()
    format_kwarg = None
    cursor_parameter: ClassVar[str] = "cursor"

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        view = super().as_view(**initkwargs)
        # A redirect to the path with its slash would turn a POST into a GET.
        view.should_append_slash = False  # type: ignore[attr-defined]
        return view

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check key and scope before anything else of a request."""
        self.perform_authentication(request)
        self.check_permissions(request)
        self.check_throttles(request)
        # Refused as a method (405) by DRF afterwards, rather than for its format or its parameters.
        if str(request.method) not in self.allowed_methods:
            return
        chosen = self.perform_content_negotiation(request)
        request.accepted_renderer, request.accepted_media_type = chosen
        reads = request.method in ("GET", "HEAD")
        known = self.parameters if reads else self.write_parameters
        self.query = known.read_query(request.query_params)

    def raise_uncaught_exception(self, exc: Exception) -> NoReturn:
        raise exc

    @property
    def default_response_headers(self) -> dict[str, str]:
        # An answer depends on the key: a cache in between must neither keep it nor give it to another.
        return {"Vary": "Accept, Authorization", "Cache-Control": "no-store"}

    @property
    def caller(self) -> Caller:
        return cast("Caller", self.request.user)

    @property
    def tenant(self) -> Tenant | None:
        """The tenant that limits what the caller sees, None for all.

        A view that opens to keys of groups handles their `subtree` first.
        """
        if self.caller.group is not None:
            # A group's key has no tenant, which means no limit: a forgotten view must not show all.
            raise RuntimeError(f"{type(self).__name__} does not limit keys of groups")
        return self.caller.tenant

    @cached_property
    def body(self) -> bytes:
        return read_body(self.request, large=self.large and self.request.method == "POST")

    def body_value(self) -> Any:
        """Return the value in the body, `{}` for an empty one."""
        operation = self.operation_of(str(self.request.method))
        if operation is None or operation.body is None:
            raise RuntimeError(f"{type(self).__name__} describes no body of {self.request.method}")
        parsers = [parser() for parser in operation.body.parsers]
        return parse_body(self.request, self.body, parsers)

    def read(self, document: type[Document]) -> dict[str, Any]:
        """Return the fields in the body."""
        return read_document(document, self.body_value())

    def read_patch(
        self, document: type[Document], current: Mapping[str, Any], *, fixed: Sequence[str]
    ) -> dict[str, Any]:
        """Return the fields after the patch in the body, of which `fixed` ones cannot change."""
        fields = read_document(document, merge_patch(current, self.body_value()))
        refuse_changed(current, fields, fixed)
        return fields

    @classmethod
    def operation_of(cls, method: str) -> Operation | None:
        """Return the operation that describes a handler, None in a view that OpenAPI omits."""
        handler = getattr(cls, {"HEAD": "get"}.get(method, method.lower()), None)
        return getattr(handler, "operation", None)

    def get_renderers(self) -> list[BaseRenderer]:
        operation = self.operation_of(str(self.request.method))
        # A refusal of an undescribed method is JSON, as every problem.
        formats = JSON if operation is None else operation.answer.formats
        return [renderer() for renderer in formats.renderers]

    def get_renderer_context(self) -> dict[str, Any]:
        return {**super().get_renderer_context(), "columns": self.columns}

    def filters(self, **columns: str) -> dict[str, Any]:
        """Return the filters in the query, by column. `columns` are the columns of other names."""
        return {
            columns.get(name, name): value
            for name, value in self.query.items()
            if value is not None and name not in PageParameters.fields
        }

    def listing(
        self, page: Page, document: Callable[[Any], Mapping[str, Any]], columns: Sequence[str]
    ) -> Response:
        """Answer a page of a list, with the `columns` of its CSV."""
        self.columns = columns
        # A link with all parameters of the query, so that a client needs to build none.
        following = self._url_after(page.next_cursor)
        response = Response({"results": [document(row) for row in page.rows], "next": following})
        response.add_post_render_callback(keep_content_type)
        if following is not None:
            response["Link"] = f'<{following}>; rel="next"'
            response["X-Next-Cursor"] = str(page.next_cursor)
        return response

    def rows_answer(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Response:
        """Return the rows of a report or statement, for CSV and NDJSON."""
        self.columns = columns
        response = Response({"results": rows})
        response.add_post_render_callback(keep_content_type)
        return response

    def _url_after(self, cursor: str | None) -> str | None:
        if cursor is None:
            return None
        query = self.request.query_params.copy()
        query[self.cursor_parameter] = cursor
        return self.request.build_absolute_uri(f"{self.request.path}?{query.urlencode()}")


def keep_content_type(response: Response) -> None:
    """Set the content type that DRF omits from an empty answer, such as NDJSON without rows."""
    response.headers.setdefault("Content-Type", str(response.accepted_media_type))


class OpenView(ContractView):
    """A route without a key."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []
    scopes: ClassVar = {"GET": frozenset(Scope)}


class PoolView(ContractView):
    """A route below a pool, which is missing to callers that may not see it.

    `retired`: its objects stay readable after the pool is retired.
    """

    of_a_pool = ("GET", "POST", "PUT", "PATCH", "DELETE")
    reads_standby = True
    retired: ClassVar[bool] = False
    _visible: Pool | None = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        read: StandbyRead | None = getattr(request._request, "standby_read", None)
        if read is not None:
            read.found = self.pool.generation
            if not read.is_recent:
                # The middleware asks the primary instead: no caller sees this.
                raise Unavailable("The standby does not have the change yet.")

    def cluster(self, asked: str | None) -> str:
        """Return the cluster that is asked for, by default the key's, empty for the whole pool.

        An agent whose key names none has the cluster of the pool's slug in a pool with clusters. To
        apply the decision for all of them would give its scheduler what runs on others.
        """
        bound = self.caller.cluster
        if not bound and self.caller.scope == Scope.AGENT and labelled_clusters(self.pool):
            bound = self.pool.slug
        if bound and asked not in (None, bound):
            raise Forbidden(
                f'This key is bound to the cluster "{bound}" of the pool.', code="auth.cluster"
            )
        return asked or bound

    def get_authenticators(self) -> list[BaseAuthentication]:
        # Authentication reads the pool along with the key, which saves a statement per request.
        return [ApiKeyAuthentication(self._key_of)]

    def _key_of(self, text: str) -> ApiKey | None:
        """The key, and with it the pool if its holder may see it."""
        key, self._visible = key_and_pool(text=text, slug=self._slug, retired=self.retired)
        return key

    @cached_property
    def subtree(self) -> Subtree | None:
        """The limit of a group's key, or None for every other key."""
        group, pool = self.caller.group, self.pool
        return None if group is None else subtree_of(group=group, pool=pool)

    @property
    def reader(self) -> Tenant | None:
        """The tenant that limits what is shown, None if a subtree or nothing does."""
        return None if self.subtree is not None else self.tenant

    @cached_property
    def known_groups(self) -> Collection[str] | None:
        """The slugs of the groups that are not shown under pseudonyms, None for all."""
        return groups_known(pool=self.pool, caller=self.reader)

    @cached_property
    def resources(self) -> Sequence[Resource]:
        """The resources of the pool, in the order of its vectors."""
        return resources_of(self.pool)

    @property
    def _slug(self) -> str:
        """The path's, or the empty text, which no pool has."""
        slug = str(self.kwargs["pool"])
        # A path can contain U+0000, which PostgreSQL refuses in a text: a 500 in place of a 404.
        return slug if is_slug(slug) else ""

    @property
    def pool(self) -> Pool:
        """The pool of the path. Raises `Missing` unless the caller may see it."""
        if self._visible is None:
            raise missing("pool.not_found")
        return self._visible


def writes(
    handler: Callable[Concatenate[V, Request, P], Response],
) -> Callable[Concatenate[V, Request, P], Response | HttpResponse]:
    """Serve a change in one transaction, together with the claim of its `Idempotency-Key`."""

    @wraps(handler)
    def served(
        self: V, request: Request, *args: P.args, **kwargs: P.kwargs
    ) -> Response | HttpResponse:
        key = None
        if request.method == "POST":
            key = idempotency_key(request.headers.get("Idempotency-Key"))
        # The claim commits with its effect, or neither does.
        with transaction.atomic():
            if key is None:
                return handler(self, request, *args, **kwargs)
            return serve_once(
                holder=self.caller.holder_id,
                path=request.path,
                key=key,
                body=self.body,
                serve=lambda: handler(self, request, *args, **kwargs),
            )

    return cast("Callable[Concatenate[V, Request, P], Response | HttpResponse]", served)
