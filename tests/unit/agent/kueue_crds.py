"""Kueue's definitions of queues and cohorts as far as the agent's tests need them, and their pruning.

Source: KEP-12382 of https://github.com/kubernetes-sigs/kueue as merged (pull requests 14104, 14389,
15040 and 15107) for `status.effectiveQuotas`; apis/kueue/v1beta2/clusterqueue_types.go for the rest.
"""

from typing import Any

from jsonschema import Draft202012Validator

from tests.unit.enforcement.crds import EFFECTIVE_QUOTAS, NAME, QUANTITY

Schema = dict[str, Any]
ANY: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}


def _or_integers(schema: Any) -> Any:
    """Return a schema in which quantities may be integers, as people write them."""
    if schema == QUANTITY:
        return {**QUANTITY, "type": ["string", "integer"]}
    if isinstance(schema, dict):
        return {name: _or_integers(value) for name, value in schema.items()}
    return schema


_EFFECTIVE = _or_integers(EFFECTIVE_QUOTAS)
_QUOTAS = _EFFECTIVE["properties"]["resourceGroups"]


def _fields(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def kueue_schemas(*, effective: bool = True) -> dict[str, Schema]:
    """Return the schemas of queues and cohorts by plural, of a Kueue with effective quotas or before."""
    added = {"effectiveQuotas": _EFFECTIVE} if effective else {}
    fair = _fields(weight=ANY)
    queue_status = {
        "conditions": ANY, "flavorsUsage": ANY, "flavorsReservation": ANY, "fairSharing": ANY,
        "pendingWorkloads": _NUMBER, "admittedWorkloads": _NUMBER, "reservingWorkloads": _NUMBER,
    }  # fmt: skip
    return {
        "clusterqueues": _fields(
            spec=_fields(
                resourceGroups=_QUOTAS,
                cohortName=NAME,
                namespaceSelector=ANY,
                queueingStrategy=_TEXT,
                flavorFungibility=ANY,
                preemption=ANY,
                stopPolicy=_TEXT,
                admissionChecksStrategy=ANY,
                fairSharing=fair,
            ),
            status=_fields(**queue_status, **added),
        ),
        "cohorts": _fields(
            spec=_fields(resourceGroups=_QUOTAS, parentName=NAME, fairSharing=fair),
            status=_fields(fairSharing=ANY, **added),
        ),
    }


def pruned(value: Any, schema: Schema) -> Any:
    """Return a value without the fields that its schema does not name, as API servers store it."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        return {name: pruned(each, known[name]) for name, each in value.items() if name in known}
    if isinstance(value, list) and "items" in schema:
        return [pruned(each, schema["items"]) for each in value]
    return value


def problem_of(item: Any, schema: Schema) -> str:
    """Return the first field that the schema rejects, nothing if it rejects none."""
    error = next(Draft202012Validator(schema).iter_errors(item), None)
    return "" if error is None else f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
