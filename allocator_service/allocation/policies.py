"""The policies as the service offers them: choosing one for a pool, listing them all."""

from collections.abc import Mapping
from typing import Any

import policies
from allocator_service.core.errors import (
    DomainError,
    TooLarge,
    Unacceptable,
    Unavailable,
    Unreadable,
)
from allocator_service.pools.policy import PolicyChoice
from policies.errors import PolicyError, ProblemTooLargeError, SolveTimeoutError
from policies.model.server_classes import sees_one_pool


def policy_choose(name: str, mode: str | None, options: Mapping[str, Any] | None) -> PolicyChoice:
    """The policy of this name with its mode and options filled in.

    Raises `Unacceptable` with `policy.unknown`, `policy.mode` or `policy.options`.
    """
    try:
        info = policies.policy_info(name)
        chosen_mode = policies.mode_of(name, mode)
        chosen_options = policies.options_of(name, options)
    except PolicyError as error:
        raise domain_error(error) from error
    places = not sees_one_pool(name, chosen_options)
    return PolicyChoice(name, chosen_mode, chosen_options, info.long_term, places)


def policy_documents() -> list[dict[str, Any]]:
    """Every policy: name, description, modes, JSON Schema of options, complexity, source."""
    return [_document(info) for info in policies.policies_available()]


def _document(info: policies.PolicyInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "description": info.description,
        "modes": list(info.modes),
        "options": _plain(info.options_schema),
        "long_term": info.long_term,
        "places": info.places,
        "complexity": info.complexity,
        "source": info.source,
    }


def _plain(schema: Any) -> Any:
    """A JSON Schema of read-only mappings as dictionaries and lists."""
    if isinstance(schema, Mapping):
        return {key: _plain(value) for key, value in schema.items()}
    if isinstance(schema, list | tuple):
        return [_plain(item) for item in schema]
    return schema


def domain_error(error: PolicyError) -> DomainError:
    """What a policy refused, as the error that interfaces render."""
    if error.code == "field.unknown":
        return Unreadable(error.detail, code=error.code, pointer=error.pointer)
    kinds: dict[type[PolicyError], type[DomainError]] = {
        ProblemTooLargeError: TooLarge,
        SolveTimeoutError: Unavailable,
    }
    kind = kinds.get(type(error), Unacceptable)
    return kind(error.detail, code=error.code, pointer=error.pointer)
