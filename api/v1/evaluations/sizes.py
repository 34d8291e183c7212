"""How large a problem a long body describes, estimated before the body is read strictly."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from django.conf import settings

from allocator_service.allocation.what_if.evaluations import refuse_kinds, refuse_many

_ABSENT = msgspec.Raw(b"null")


class _Server(msgspec.Struct, gc=False):
    capacity: msgspec.Raw = _ABSENT
    labels: msgspec.Raw = _ABSENT
    count: msgspec.Raw = msgspec.Raw(b"1")


class _Problem(msgspec.Struct):
    tenants: list[msgspec.Raw] = []
    workloads: list[msgspec.Raw] = []
    servers: list[_Server] = []


class _Comparison(msgspec.Struct):
    input: _Problem


_problem, _comparison = msgspec.json.Decoder(_Problem), msgspec.json.Decoder(_Comparison)


def refuse_oversized_evaluation(body: bytes) -> None:
    """Refuse a long body of an evaluation for its size, without making objects of what it holds.

    The strict reader, twenty times slower, has the rest: it says what is wrong with a body that
    cannot be read here. Raises `TooLarge`.
    """
    _refuse(body, _problem.decode)


def refuse_oversized_comparison(body: bytes) -> None:
    """The same for the `input` of a comparison."""
    _refuse(body, lambda body: _comparison.decode(body).input)


def _refuse(body: bytes, problem_in: Callable[[bytes], _Problem]) -> None:
    if len(body) <= settings.BODY_BYTES:
        return
    with suppress(msgspec.DecodeError, RecursionError):
        problem = problem_in(body)
        refuse_many("tenants", len(problem.tenants))
        refuse_many("workloads", len(problem.workloads))
        refuse_kinds(map(_read, problem.servers))


def _read(server: _Server) -> dict[str, Any]:
    names = ("capacity", "labels", "count")
    return {name: msgspec.json.decode(getattr(server, name)) for name in names}
