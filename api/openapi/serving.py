"""The served OpenAPI document, which each process writes once."""

import hashlib
import threading
from functools import cache

from django.http import HttpResponse
from django.utils.cache import get_conditional_response
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from api.throttling import AddressThrottle
from api.views import OpenView

CACHE_CONTROL = "public, max-age=300"
_lock = threading.Lock()


class _Yaml(OpenApiYamlRenderer):
    """The document as `application/yaml`, for clients that do not know the other media type."""

    media_type = "application/yaml"


class _Json(OpenApiJsonRenderer):
    media_type = "application/json"


class SchemaView(OpenView):
    """The document, as YAML or JSON. It takes no parameter but `format`."""

    schema = None
    throttle_classes = [AddressThrottle]

    def get(self, request: Request) -> HttpResponse:
        renderer = request.accepted_renderer
        content, etag = _write_once(str(renderer.format))
        response = HttpResponse(
            content,
            content_type=renderer.media_type,
            headers={"ETag": etag},
        )
        # The document is large and changes with releases alone: most callers have it already.
        return get_conditional_response(request, etag=etag, response=response) or response

    @property
    def default_response_headers(self) -> dict[str, str]:
        return {"Vary": "Accept", "Cache-Control": CACHE_CONTROL}

    def get_renderers(self) -> list[BaseRenderer]:
        return [OpenApiYamlRenderer(), _Yaml(), OpenApiJsonRenderer(), _Json()]


def _write_once(media_format: str) -> tuple[bytes, str]:
    with _lock:  # the first request writes it, others wait
        return _write(media_format)


@cache
def _write(media_format: str) -> tuple[bytes, str]:
    renderer = {"yaml": OpenApiYamlRenderer, "json": OpenApiJsonRenderer}[media_format]()
    document = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    written = renderer.render(document, renderer_context={})
    content = written.encode() if isinstance(written, str) else written
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'
