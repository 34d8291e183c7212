"""Resources, the common parts of the routes of one kind of object."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from http import HTTPStatus
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.response import Response

from allocator_service.core.selecting import get_or_missing
from api.contract.bodies import is_csv, name_rows
from api.contract.bulk import Items, created_document, read_items
from api.contract.conditional import entity_tag, expected_version, optional_version
from api.contract.documents import NoFields
from api.contract.fields import VectorField, slug_or_none, uuid_or_none
from api.contract.pagination import Ordering, Page
from api.views import ContractView, PoolView
from policies.fields import Document


class Resource(ContractView):
    """Base of the routes of a resource.

    A subclass declares the document, the rows and the services of its objects. Its handlers return
    `answer_*`. A subclass overrides a method, or writes the handler out, where it differs.

    Attributes:
        document: the answer.
        change: the body of PATCH. Its `fixed` fields cannot change once an object is created.
        lookup: the column that a path names.
        not_found: the code for an object that does not exist or that the caller may not see.
        ordering: the order of lists.
        by_rows: lists read columns instead of objects, in a third of the time.
    """

    document: ClassVar[type[Document]]
    change: ClassVar[type[Document]]
    fixed: ClassVar[Sequence[str]] = ()
    lookup: ClassVar[str] = "pk"
    not_found: ClassVar[str]
    ordering: ClassVar[Ordering]
    by_rows: ClassVar[bool] = False

    def queryset(self) -> QuerySet[Any]:
        """Return the objects that the caller may see."""
        raise NotImplementedError

    def update(self, found: Any, fields: Mapping[str, Any], version: int) -> Any:
        """Set the fields of an object, and return the object to answer."""
        raise NotImplementedError

    def retire(self, found: Any, version: int) -> None:
        """Retire an object."""
        raise NotImplementedError

    def version_of(self, found: Any) -> int:
        """Return the version that preconditions name."""
        return int(found.version)

    def find(self, key: str) -> Any:
        """Return the object that a path names. Raises `Missing`."""
        by_slug = self.lookup.endswith("slug")
        # A path may hold any text: what is no key is as missing as a key of nothing.
        value = slug_or_none(key) if by_slug else uuid_or_none(key)
        return get_or_missing(self.queryset(), self.not_found, **{self.lookup: value})

    def write(self, found: Any) -> dict[str, Any]:
        """Return the document of an object for the caller."""
        return self.document.write(found, self)

    def headers_of(self, found: Any, *, changed: bool) -> dict[str, str]:
        """Return the headers of an answer with an object, which the request changed or not."""
        tag = {"ETag": entity_tag(self.version_of(found))}
        return {**tag, **self.generation_header()} if changed else tag

    def generation_header(self) -> dict[str, str]:
        """Return the header with the generation that a change made, empty if it made none."""
        return {}

    def answer_list(self, rows: QuerySet[Any] | None = None) -> Response:
        """Answer a page of the visible objects that match the query."""
        found = (self.queryset() if rows is None else rows).filter(**self.filters())
        if self.by_rows:
            # Columns bring their own joins, so those of whole objects would be superfluous.
            found = found.select_related(None).values_list(*self.document.lookups(), named=True)
        page = self.ordering.page(found, cursor=self.query["cursor"], limit=self.query["limit"])
        return self.answer_page(page)

    def answer_page(self, page: Page) -> Response:
        """Answer a page of objects, or of rows if the list is `by_rows`."""
        write = self.document.row_writer(self) if self.by_rows else self.write
        return self.listing(page, write, self.csv_columns())

    def filters(self, **columns: str) -> dict[str, Any]:
        """Return the query's filters by column. The column of a field of the document is its source."""
        sources = {
            name: source.replace(".", "__")
            for name, field in self.document.fields.items()
            if isinstance(source := field.source or name, str)
        }
        return super().filters(**{**sources, **columns})

    def csv_columns(self) -> list[str]:
        """Return the columns of a CSV of the list."""
        return list(self.document.fields)

    def answer_one(
        self, found: Any, status: HTTPStatus = HTTPStatus.OK, *, changed: bool = False
    ) -> Response:
        """Answer an object with its entity tag."""
        headers = self.headers_of(found, changed=changed)
        return Response(self.write(found), status, headers=headers)

    def answer_created(self, found: Any, key: object) -> Response:
        """Answer a new object with its address."""
        response = self.answer_one(found, HTTPStatus.CREATED, changed=True)
        response["Location"] = f"{self.request.path}{key}/"
        return response

    def answer_many_created(
        self,
        document: type[Document],
        create: Callable[[Items], Sequence[Any]],
        *,
        refuse_too_many: Callable[[int], None] | None = None,
    ) -> Response:
        """Create one object or many, all or none, and answer the object or the number of objects.

        Args:
            document: the document of each item of the body.
            create: creates objects for the items and returns their keys.
            refuse_too_many: rejects a number of items before any of them is read.
        """
        csv = is_csv(self.request)
        with name_rows() if csv else nullcontext():
            items = read_items(
                document, self.body_value(), cells=csv, refuse_too_many=refuse_too_many
            )
            keys = create(items)
        # One item can create many objects, such as identical servers.
        if items.alone and len(keys) == 1:
            return self.answer_created(self.find(str(keys[0])), keys[0])
        headers = self.generation_header()
        return Response(created_document(keys), HTTPStatus.CREATED, headers=headers)

    def answer_update(self, key: str) -> Response:
        """Change an object by the merge patch in the body, at the version in If-Match."""
        # A stale version is rejected before the body is read. The service compares again under its lock.
        found = self.find(key)
        version = expected_version(self.request, actual=self.version_of(found))
        fields = self.read_patch(self.change, self.current(found), fixed=self.fixed)
        return self.answer_one(self.update(found, fields, version), changed=True)

    def current(self, found: Any) -> dict[str, Any]:
        """Return the present values of the fields that a merge patch can change."""
        # Exact decimals: a patch of another field must not round this one.
        return self.change.exact(found, self)

    def answer_retire(self, key: str) -> Response:
        """Retire an object at the version in If-Match."""
        found = self.find(key)
        version = expected_version(self.request, actual=self.version_of(found))
        self.retire(found, version)
        return Response(status=HTTPStatus.NO_CONTENT, headers=self.generation_header())

    def answer_act(self, key: str, action: Callable[[Any, int | None], Any]) -> Response:
        """Apply an action to an object, at the version in If-Match if the request has one."""
        found = self.find(key)
        version = optional_version(self.request, actual=self.version_of(found))
        self.read(NoFields)
        return self.answer_one(action(found, version), changed=True)


class PoolResource(Resource, PoolView):
    """Base of the routes of a resource of a pool.

    `makes_generation`: a change increments the pool's generation and causes a new decision.
    """

    makes_generation: ClassVar[bool] = False

    def body_value(self) -> Any:
        # A pool that the caller may not see must answer 404 even if the body is wrong.
        _ = self.pool
        return super().body_value()

    def generation_header(self) -> dict[str, str]:
        if not self.makes_generation:
            return {}
        # The service counted the change on an object of its own, which it read under the lock.
        self.pool.refresh_from_db(fields=["generation"])
        return {"Pool-Generation": str(self.pool.generation)}

    def csv_columns(self) -> list[str]:
        """Return the columns of a CSV of the list. A vector has one for each resource of the pool."""
        columns: list[str] = []
        for name, field in self.document.fields.items():
            if isinstance(field, VectorField):
                columns += [f"{name}.{resource.name}" for resource in self.resources]
            else:
                columns.append(name)
        return columns
