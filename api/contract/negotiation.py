"""Negotiation of the format of an answer, by `?format=` before `Accept`."""

from collections.abc import Iterable

from rest_framework import exceptions
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from api.contract.errors import NotAcceptable


class ContractNegotiation(DefaultContentNegotiation):
    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        # Links and browsers cannot choose an `Accept`, so the parameter goes before it.
        asked = request.query_params.get("format")
        if asked is not None:
            for renderer in renderers:
                if renderer.format == asked:
                    return renderer, str(renderer.media_type)
            raise _refusal(renderers)
        try:
            chosen: tuple[BaseRenderer, str] = super().select_renderer(
                request, renderers, format_suffix
            )
        except exceptions.NotAcceptable as error:
            raise _refusal(renderers) from error
        return chosen


def _refusal(renderers: Iterable[BaseRenderer]) -> NotAcceptable:
    available = ", ".join(str(renderer.media_type) for renderer in renderers)
    return NotAcceptable(f"This is available as {available}.")
