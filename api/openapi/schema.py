"""The OpenAPI 3.1 document, written from the scopes, parameters and operations of views."""

import inspect
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent

from allocator_service.billing.exports.focus import COLUMNS
from allocator_service.billing.months import MONTH_PATTERN
from allocator_service.enforcement.rendering.targets import TARGETS
from allocator_service.tenants.models import SLUG_PATTERN, Scope
from api.contract.errors import PROBLEM_TYPE
from api.contract.idempotency import KEY_PATTERN
from api.contract.operations import Operation
from api.contract.parameters import parameter_schema
from api.openapi.examples import add_example
from api.openapi.groups import GROUPS, group_of
from api.standby import HEADER
from policies.fields import Document, Schema

if TYPE_CHECKING:  # views read the settings that name this module
    from api.views import ContractView

_SLUGS = ("pool", "tenant", "group", "agent")
_PATH_PARAMETERS = {
    "pool": "The pool's slug.",
    "tenant": "The tenant's slug.",
    "group": "The group's slug.",
    "agent": "The agent's name, unique in the pool.",
    "server": "The server's id.",
    "workload": "The workload's id.",
    "run": "The id of a run: one computation of a pool's allocation.",
    "simulation": "The simulation's id.",
    "backtest": "The backtest's id.",
    "target": "The scheduler whose language it is.",
    "entry": "The id of an entry of the ledger.",
    "plan": "The price plan's id.",
    "month": "A calendar month in the pool's time zone.",
    "version": "A version of FOCUS.",
    "credit_note": "The credit note's id.",
    "budget": "The budget's id.",
    "webhook": "The webhook's id.",
    "delivery": "The id of a delivery: one event to one webhook.",
}
_TEXT_HEADER: Schema = {"schema": {"type": "string"}}
_HEADERS: Mapping[str, Schema] = {
    "ETag": {
        "description": "The version, for If-Match; a weak one is for If-None-Match only.",
        **_TEXT_HEADER,
    },
    "Location": {"description": "Where the object is.", **_TEXT_HEADER},
    "Link": {
        "description": 'The next page, rel="next"; the schema of a file, rel="describedby".',
        **_TEXT_HEADER,
    },
    "X-Next-Cursor": {"description": "The cursor of the next page.", **_TEXT_HEADER},
    "Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 0}},
    "Idempotency-Replayed": {
        "description": "The answer is that of an earlier request.",
        "schema": {"type": "string", "enum": ["true"]},
    },
    "Pool-Generation": {
        "description": "The number of the pool's last change. A decision is in force for it when its"
        " `generation` is at least this.",
        "schema": {"type": "integer", "minimum": 0},
    },
}
_EVERY_ANSWER: Mapping[str, Schema] = {
    "X-Request-Id": {"description": "The id of the request.", **_TEXT_HEADER}
}
_IF_MATCH = {
    "required": "The ETag that the change is made for; 428 without.",
    "to replace": "The ETag that is replaced; not for admitting.",
    "optional": "The ETag that the action is made for.",
}
_PROBLEM: Schema = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code", "errors", "request_id"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string", "description": "Stable; what programs decide by."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "code", "detail"],
                "properties": {
                    "pointer": {"type": "string", "description": "Into the body (RFC 6901)."},
                    "code": {"type": "string"},
                    "detail": {"type": "string"},
                },
            },
        },
        "request_id": {"type": "string"},
    },
}


class ContractSchema(AutoSchema):
    """Writes the operation that describes a handler, and omits handlers without one."""

    view: "ContractView"  # type: ignore[override]

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: ComponentRegistry
    ) -> dict[str, Any] | None:
        handler = getattr(self.view, method.lower(), None)
        operation: Operation | None = getattr(handler, "operation", None)
        if operation is None:
            return None
        self.registry = registry
        described: dict[str, Any] = {
            "operationId": _operation_id(path, operation),
            "summary": operation.summary,
            # The docstrings of handlers are the reference that clients read.
            "description": inspect.getdoc(handler) or "",
            "tags": [group_of(_segments(path))],
            "parameters": self._parameters(path, method, operation),
            "responses": self._responses(path, method, operation),
        }
        if operation.body is not None:
            content = operation.body.content(self._component)
            described["requestBody"] = {"content": content, "required": operation.body.required}
        open_to_all = not self.view.permission_classes
        described["security"] = [] if open_to_all else [{"key": []}]
        add_example(described)
        return described

    def _component(self, name: str, schema: Schema) -> Schema:
        component = ResolvedComponent(  # type: ignore[no-untyped-call]
            name=name, type=ResolvedComponent.SCHEMA, schema=schema, object=name
        )
        # By name: the document of a resource is referred to by many operations and written once.
        self.registry.register_on_missing(component)
        reference: Schema = component.ref
        return reference

    def _document(self, document: type[Document]) -> Schema:
        return self._component(document.__name__, document.schema())

    def _parameters(self, path: str, method: str, operation: Operation) -> list[Schema]:
        parameters: list[Schema] = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": _PATH_PARAMETERS[name],
                "schema": _path_schema(name),
            }
            for name in _path_parameters(path)
        ]
        if method == "GET":
            parameters += self.view.parameters.describe()
            chosen = operation.answer.formats.parameter_field()
            if chosen is not None:
                parameters.append(parameter_schema("format", chosen))
        else:
            parameters += self.view.write_parameters.describe()
        if operation.if_match:
            parameters.append(
                {
                    "name": "If-Match",
                    "in": "header",
                    "required": operation.if_match == "required",
                    "description": _IF_MATCH[operation.if_match],
                    "schema": {"type": "string", "examples": ['"v1"', "*"]},
                }
            )
        if operation.conditional:
            parameters.append(
                {
                    "name": "If-None-Match",
                    "in": "header",
                    "required": False,
                    "description": "The ETag of an answer that the caller has; 304 if it is the same.",
                    "schema": {"type": "string"},
                }
            )
        if method == "GET" and self.view.reads_standby:
            parameters.append(
                {
                    "name": HEADER,
                    "in": "header",
                    "required": False,
                    "description": "The number of the change that the answer must include. It may then"
                    " come from a standby; a text that is not a number is ignored.",
                    "schema": {"type": "string", "examples": ["42"]},
                }
            )
        if operation.repeatable:
            parameters.append(
                {
                    "name": "Idempotency-Key",
                    "in": "header",
                    "required": False,
                    "description": "Sent again with the same body, the first answer comes back.",
                    "schema": {"type": "string", "pattern": KEY_PATTERN},
                }
            )
        return parameters

    def _responses(self, path: str, method: str, operation: Operation) -> dict[str, Schema]:
        success: Schema = {
            "description": operation.status.phrase,
            "headers": {
                name: _HEADERS[name] for name in operation.headers
            } | dict(_EVERY_ANSWER),
        }  # fmt: skip
        content = operation.answer.content(self._component)
        if content:
            success["content"] = content
        responses = {str(int(operation.status)): success}
        if operation.kind == "put":
            responses["201"] = success | {"description": HTTPStatus.CREATED.phrase}
        if operation.conditional:
            responses["304"] = {
                "description": HTTPStatus.NOT_MODIFIED.phrase,
                "headers": {"ETag": _HEADERS["ETag"], **_EVERY_ANSWER},
            }
        for other, document in operation.other_answers.items():
            responses[str(int(other))] = {
                "description": other.phrase,
                "headers": {"Retry-After": _HEADERS["Retry-After"], **_EVERY_ANSWER},
                "content": {"application/json": {"schema": self._document(document)}},
            }
        for status in sorted(self._problem_statuses(path, method, operation)):
            responses[str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
        return responses

    def _problem_statuses(self, path: str, method: str, operation: Operation) -> set[int]:
        if not self.view.permission_classes:
            return set(operation.problems)
        statuses = {400, 401, 406, 429, 503, *operation.problems}
        # A route of every scope refuses no key for its scope.
        if self.view.scopes[method] != frozenset(Scope):
            statuses.add(403)
        if _path_parameters(path):
            statuses.add(404)
        return statuses


def describe_whole(
    result: dict[str, Any],
    generator: Any,  # noqa: ARG001
    request: Any,  # noqa: ARG001
    public: bool,  # noqa: ARG001
) -> dict[str, Any]:
    """Add groups, the scheme of keys and a response for each problem (a hook of drf-spectacular)."""
    result["tags"] = [{"name": group.name, "description": group.description} for group in GROUPS]
    components = result.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = _PROBLEM
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    headers = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}
    components["responses"] = {}
    for status in (400, 401, 403, 404, 406, 409, 410, 411, 412, 413, 415, 422, 428, 429, 503):
        own = (
            {headers[status]: _HEADERS.get(headers[status], _TEXT_HEADER)}
            if status in headers
            else {}
        )
        components["responses"][f"Problem{status}"] = {
            "description": HTTPStatus(status).phrase,
            "headers": {**own, **_EVERY_ANSWER},
            "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return result


def _path_parameters(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _segments(path: str) -> list[str]:
    parts = path.removeprefix("/api/v1").strip("/").split("/")
    return [part for part in parts if part and not part.startswith("{")]


def _operation_id(path: str, operation: Operation) -> str:
    return "_".join([*(_segments(path) or ["root"]), operation.kind]).replace("-", "_")


def _path_schema(name: str) -> Schema:
    if name in _SLUGS:
        return {"type": "string", "pattern": SLUG_PATTERN}
    if name == "target":
        return {"type": "string", "enum": list(TARGETS)}
    if name == "version":
        return {"type": "string", "enum": sorted(COLUMNS)}
    if name == "month":
        return {"type": "string", "pattern": MONTH_PATTERN, "examples": ["2027-03"]}
    return {"type": "string", "format": "uuid"}
