"""The parts of other projects' CustomResourceDefinitions that bear on what is rendered, typed in.

Sources, each the `spec` of the object at the version named:

* Kueue v1beta2, https://github.com/kubernetes-sigs/kueue at 013c8f2,
  apis/kueue/v1beta2/clusterqueue_types.go, and cohort_types.go at 0a8a38c;
  `status.effectiveQuotas` from KEP-12382 as merged (pull requests 14104, 14389, 15040, 15107).
* Volcano v1beta1, https://github.com/volcano-sh/volcano at 038b64a,
  config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml; the bounds of `weight` are ours.
* KAI v2, https://github.com/kai-scheduler/KAI-Scheduler at 431c3a0,
  deployments/kai-scheduler/crds/scheduling.run.ai_queues.yaml.

A rule of CEL (`x-kubernetes-validations`) is a function here that says what is wrong.
"""

from typing import Any

from jsonschema import Draft202012Validator

NAME = {
    "type": "string",
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
QUANTITY = {
    "type": "string",
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
}
QUANTITIES = {"type": "object", "additionalProperties": QUANTITY}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


def _list(items: Any, least: int, most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


_RESOURCE = _object(
    ["name", "nominalQuota"],
    name={"type": "string"},
    nominalQuota=QUANTITY,
    borrowingLimit=QUANTITY,
    lendingLimit=QUANTITY,
)
_FLAVOR = _object(["name", "resources"], name=NAME, resources=_list(_RESOURCE, 1, 64))
_GROUP = _object(
    ["coveredResources", "flavors"],
    coveredResources=_list({"type": "string"}, 1, 64),
    flavors=_list(_FLAVOR, 1, 64),
)
_METADATA = _object(
    ["name"], name=NAME, namespace=NAME, labels={"type": "object"}, annotations={"type": "object"}
)
_LABEL_VALUE = {
    "type": "string",
    "maxLength": 63,
    "pattern": r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
}


def _manifest(spec: Any, **more: Any) -> dict[str, Any]:
    text = {"type": "string"}
    return _object(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion=text,
        kind=text,
        metadata=_METADATA,
        spec=spec,
        **more,
    )


_KIND = {
    "type": "string",
    "minLength": 1,
    "maxLength": 63,
    "pattern": r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$",
}
_ORCHESTRATOR = _object(["apiGroup", "kind", "name"], apiGroup=NAME, kind=_KIND, name=NAME)
EFFECTIVE_QUOTAS = _object(
    ["orchestratorRef", "resourceGroups"],
    orchestratorRef=_ORCHESTRATOR,
    resourceGroups=_list(_GROUP, 0, 16),
)
SCHEMAS = {
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"): _manifest(
        _object(
            [],
            resourceGroups=_list(_GROUP, 0, 16),
            cohortName=NAME,
            namespaceSelector={"type": "object"},
            fairSharing=_object([], weight=QUANTITY),
        ),
        status=_object([], effectiveQuotas=EFFECTIVE_QUOTAS),
    ),
    ("kueue.x-k8s.io/v1beta2", "Cohort"): _manifest(
        _object(
            [],
            parentName=NAME,
            resourceGroups=_list(_GROUP, 0, 16),
            fairSharing=_object([], weight=QUANTITY),
        ),
        status=_object([], effectiveQuotas=EFFECTIVE_QUOTAS),
    ),
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"): _manifest(
        _object(
            [],
            nodeLabels={"type": "object", "maxProperties": 8, "additionalProperties": _LABEL_VALUE},
        )
    ),
    ("scheduling.volcano.sh/v1beta1", "Queue"): _manifest(
        _object(
            [],
            weight={"type": "integer", "minimum": 1, "maximum": 65535},
            reclaimable={"type": "boolean"},
            parent={"type": "string"},
            guarantee=_object([], resource=QUANTITIES),
            deserved=QUANTITIES,
            capability=QUANTITIES,
        )
    ),
    ("scheduling.run.ai/v2", "Queue"): _manifest(
        _object(
            [],
            parentQueue={"type": "string"},
            resources=_object(
                [],
                **{
                    name: _object(
                        [],
                        quota={"type": "number"},
                        limit={"type": "number"},
                        overQuotaWeight={"type": "number"},
                    )
                    for name in ("cpu", "memory", "gpu")
                },
            ),
        )
    ),
}
MANIFESTS = {kind: Draft202012Validator(schema) for kind, schema in SCHEMAS.items()}


def broken_rules(queue: dict[str, Any]) -> list[str]:
    """The CEL rules of a ClusterQueue, and what its webhook adds, that a manifest breaks."""
    spec, wrong = queue["spec"], []
    every = [
        *spec["resourceGroups"],
        *queue.get("status", {}).get("effectiveQuotas", {}).get("resourceGroups", []),
    ]
    for group in every:
        for flavor in group["flavors"]:
            if len(flavor["resources"]) != len(group["coveredResources"]):
                wrong.append("flavors must have the same number of resources as coveredResources")
            if [row["name"] for row in flavor["resources"]] != group["coveredResources"]:
                wrong.append("the resources of a flavor are in the order of coveredResources")
            for row in flavor["resources"]:
                if "cohortName" not in spec and "borrowingLimit" in row:
                    wrong.append("borrowingLimit must be nil when cohort is empty")
                if "cohortName" not in spec and "lendingLimit" in row:
                    wrong.append("lendingLimit must be nil when cohort is empty")
    flavors = [flavor["name"] for group in spec["resourceGroups"] for flavor in group["flavors"]]
    if len(set(flavors)) != len(flavors):
        wrong.append("a flavor is in one resource group only")
    return wrong
