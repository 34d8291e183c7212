"""The policies as the service offers them."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import policies
from allocator_service.core.duration_fields import seconds_text
from allocator_service.core.errors import DomainError, TooLarge, Unavailable, refusal
from allocator_service.core.quantities import decimal_text
from allocator_service.pools.policy import PolicyChoice
from policies import PolicyError, ProblemTooLargeError, SolveTimeoutError

SECONDS = "_seconds"  # how the names of options with a duration end
_BEYOND_64_BITS = 2**63
# Policies of backtests alone.
_SIMULATED_ONLY = {
    "dedicated": "Servers of its own for each tenant, at random",
    "ffmra": "First server with room (FFMRA)",
}


def policy_choose(name: str, mode: str | None, options: Mapping[str, Any] | None) -> PolicyChoice:
    """Return the policy of this name with its mode and options filled in.

    Raises `Unacceptable` with `policy.unknown`, `policy.mode` or `policy.options`.
    """
    try:
        choice = policies.choose(name, mode, plain_options(options))
    except PolicyError as error:
        raise domain_error(error) from error
    places, long_term = not choice.sees_one_pool, choice.policy.long_term
    return PolicyChoice(name, choice.mode, dict(choice.options), long_term, places)


def groups_refusal(name: str, options: Mapping[str, Any]) -> str:
    """State why a policy with these options takes no groups.

    The text is empty for a policy that does.
    """
    if not policies.policy_named(name).takes_groups:
        able = ", ".join(each.name for each in policies.policies_available() if each.takes_groups)
        return f"The policy {name} does not decide by groups or tiers; these do: {able}."
    if options.get("resource_weights"):
        return "The option resource_weights is for pools without groups and tiers."
    return ""


def limits_refusal(name: str, options: Mapping[str, Any]) -> str:
    """State why a policy with these options keeps no limits.

    The text is empty for a policy that does.
    """
    if not policies.policy_named(name).takes_limits:
        able = ", ".join(each.name for each in policies.policies_available() if each.takes_limits)
        return f"The policy {name} does not keep limits; these do: {able}."
    if options.get("resource_weights"):
        return "The option resource_weights is for pools without limits."
    return ""


def gangs_refusal(
    name: str,
    mode: str,
    options: Mapping[str, Any],
    *,
    two_kinds: bool,
    guaranteed: bool,
    at_least: bool,
) -> str:
    """State why a policy cannot run gangs. The text is empty for a policy that can."""
    choice = policies.choose(name, mode, plain_options(options))
    return policies.gangs_refusal(
        choice, two_kinds=two_kinds, guaranteed=guaranteed, at_least=at_least
    )


def plain_options(options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return options with exact numbers converted to doubles, as pools store them in JSON."""
    return None if options is None else _with_doubles(options)


def _with_doubles(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_doubles(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_with_doubles(item) for item in value]
    if isinstance(value, Decimal) or (isinstance(value, int) and abs(value) >= _BEYOND_64_BITS):
        return float(value)
    return value


def policy_documents() -> list[dict[str, Any]]:
    """List every policy with name, description, modes, JSON Schema of options, complexity and source."""
    return [_document(policy) for policy in policies.policies_available()]


@dataclass(frozen=True, eq=False)
class PolicyOption:
    """Option of one policy, or of several that describe it in the same way."""

    policies: tuple[str, ...]
    name: str
    schema: Mapping[str, Any]
    mode: str  # empty: every mode reads it

    @property
    def field_name(self) -> str:
        """Name of the option's field in a form."""
        return f"option_{self.policies[0]}_{self.name}"

    @property
    def shown_with(self) -> dict[str, set[str]]:
        """Values of a form's fields with which the option is used."""
        conditions = {"policy_name": set(self.policies)}
        if self.mode:
            default = policies.policy_named(self.policies[0]).modes[0]
            conditions["policy_mode"] = {self.mode, *([""] if default == self.mode else [])}
        return conditions


def options_offered() -> list[PolicyOption]:
    """List the options of all policies. Policies with the same schema of options share them."""
    sharing: list[list[policies.Policy]] = []
    for policy in policies.policies_available():
        found = next((each for each in sharing if _same_options(each[0], policy)), None)
        if found is None:
            sharing.append([policy])
        else:
            found.append(policy)
    return [
        PolicyOption(
            tuple(policy.name for policy in group),
            name,
            schema,
            group[0].option_modes.get(name, ""),
        )
        for group in sharing
        for name, schema in group[0].options_schema.get("properties", {}).items()
    ]


def _same_options(one: policies.Policy, other: policies.Policy) -> bool:
    return (one.options_schema, one.option_modes, one.modes) == (
        other.options_schema, other.option_modes, other.modes,
    )  # fmt: skip


def policy_is_divisible(name: str) -> bool:
    """Return whether a policy can only give divisible shares, no whole tasks."""
    return "indivisible" not in policies.policy_named(name).modes


@dataclass(frozen=True)
class WholeNumbers:
    """Whole tasks in allocations and in placements of a policy, instead of fractions."""

    in_allocations: bool
    in_placements: bool


def whole_numbers_of(stored: Mapping[str, Any] | None) -> WholeNumbers:
    """Return which numbers of tasks are whole under the policy that a run stores.

    A run that failed before its input was read stores none.
    """
    if not stored:
        return WholeNumbers(in_allocations=False, in_placements=False)
    choice = policies.choose(**stored)
    on_servers = choice.policy.servers[choice.mode] is policies.Servers.RANGES
    return WholeNumbers(in_allocations=choice.whole_tasks, in_placements=on_servers)


def policy_title(name: str) -> str:
    """Return the name of a policy for people, or the name itself of one that is unknown."""
    found = next((each for each in policies.policies_available() if each.name == name), None)
    return _SIMULATED_ONLY.get(name, name) if found is None else found.title or name


def options_text(options: Mapping[str, Any]) -> str:
    """Return the options of a policy for people, such as placement two-choices, period 15 minutes."""
    return ", ".join(
        f"{name.removesuffix(SECONDS).replace('_', ' ')} {_option_text(name, value)}"
        for name, value in options.items()
    )


def _option_text(name: str, value: Any) -> str:
    """Return the exact value of an option."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith(SECONDS):
        return seconds_text(value)
    if isinstance(value, Mapping):
        parts = (f"{part} {_option_text('', each)}" for part, each in value.items())
        return f"({', '.join(parts)})"
    return decimal_text(Decimal(repr(value))) if isinstance(value, float) else str(value)


def policy_description(name: str) -> str:
    """Return what a policy does in one sentence, empty for one that is unknown."""
    found = (each.description for each in policies.policies_available() if each.name == name)
    return next(found, "")


def _document(policy: policies.Policy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "title": policy.title or policy.name,
        "description": policy.description,
        "modes": list(policy.modes),
        "options": _plain(policy.options_schema),
        "long_term": policy.long_term,
        "places": policy.places,
        "gangs": policy.takes_gangs,
        "complexity": policy.complexity,
        "source": policy.source,
    }


def _plain(schema: Any) -> Any:
    """Convert a JSON Schema of read-only mappings to dictionaries and lists."""
    if isinstance(schema, Mapping):
        return {key: _plain(value) for key, value in schema.items()}
    if isinstance(schema, list | tuple):
        return [_plain(item) for item in schema]
    return schema


def domain_error(error: PolicyError) -> DomainError:
    """Convert a policy's error to the error that interfaces render."""
    kinds: dict[type[PolicyError], type[DomainError]] = {
        ProblemTooLargeError: TooLarge,
        SolveTimeoutError: Unavailable,
    }
    kind = kinds.get(type(error))
    if kind is None:
        return refusal(error.mistakes)
    return kind(error.detail, code=error.code, pointer=error.pointer)
