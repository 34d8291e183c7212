"""Checks of Kubernetes and Kueue before the agent's first write."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from allocator_agent.checking import compare_clocks
from allocator_agent.configuration import Configuration
from allocator_agent.errors import AgentError
from allocator_agent.findings import Section
from allocator_agent.kubernetes.api import Absent, Api, Manifest
from allocator_agent.kubernetes.effective import FIELD, orchestrator, orchestrator_of
from allocator_agent.kubernetes.orchestrating import EffectiveKueue
from allocator_agent.kubernetes.quotas import COHORTS, QUEUES
from allocator_agent.kubernetes.rights import Right, rights_of
from allocator_agent.kubernetes.scheduler import Kubernetes
from allocator_agent.model import Observation
from allocator_agent.service import Known

_GROUP, _VERSION = "kueue.x-k8s.io", "v1beta2"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
# The schemas of definitions, which every account may read.
_SCHEMAS = f"/openapi/v3/apis/{_GROUP}/{_VERSION}"
_GATE = "DynamicQuotaOrchestration"


class KubernetesCheck:
    """Checks of one cluster."""

    def __init__(
        self,
        configuration: Configuration,
        api: Api,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._configuration, self._api, self._clock = configuration, api, clock
        self._is_kueue = configuration.scheduler == "kueue"
        self._is_effective = configuration.quota == "effective"
        self.title = "Kueue" if self._is_kueue else "Kubernetes"
        make = EffectiveKueue if self._is_effective else Kubernetes
        self._cluster = make(configuration, api)

    def run(self, section: Section, known: Known | None) -> Observation | None:
        """Add findings about the API server, Kueue's versions, rights and nodes."""
        answers = False
        with section.attempt("set [kubernetes] api, token_file and ca_file, or run it in a pod"):
            before = self._clock()
            version, date = self._api.version()
            section.ok(f"the API server answers, version {version}")
            compare_clocks(section, "the API server", date, before, self._clock())
            answers = True
        if not answers:
            return None
        if self._is_kueue and not self._serves_kueue(section):
            return None
        has_groups = known is not None and bool(known.groups)
        allowed = [
            self._may(section, right)
            for right in rights_of(
                self._configuration.scheduler,
                effective=self._is_effective,
                has_groups=has_groups,
                reclaims=self._configuration.reclaim != "none",
            )
        ]
        # The first refused list would end the section with an error that the lines above explain.
        if not all(allowed):
            return None
        if self._is_effective:
            with section.attempt("see the log of the API server"):
                self._check_schemas(section, has_groups=has_groups)
        with section.attempt("see the log of the API server"):
            return self._observe(section, known)
        return None

    def _serves_kueue(self, section: Section) -> bool:
        """Check the versions of Kueue's definitions."""
        try:
            group = self._api.request("GET", f"/apis/{_GROUP}")
        except Absent:
            section.missing("Kueue is not installed", f"install a Kueue that serves {_VERSION}")
            return False
        except AgentError as error:
            section.missing(str(error), "see the log of the API server", error.exit_code)
            return False
        versions = [item["version"] for item in group.get("versions") or []]
        section.require(
            _VERSION in versions,
            f"Kueue serves {_GROUP}/{_VERSION}",
            f"Kueue serves {', '.join(versions)} only",
            f"upgrade to a Kueue that serves {_GROUP}/{_VERSION}",
        )
        return _VERSION in versions

    def _may(self, section: Section, right: Right) -> bool:
        """Check each verb of a right. A review is an answer, and nothing is stored."""
        refused = []
        for verb in right.verbs:
            attributes = {
                "group": right.group,
                "resource": right.resource,
                "subresource": right.part,
                "verb": verb,
            }
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            }
            try:
                answer = self._api.request("POST", _REVIEWS, review)
            except AgentError as error:
                section.missing(
                    f"the rights on {right.name} are unknown: {error}",
                    "let system:basic-user hold for the service account, as Kubernetes does",
                    error.exit_code,
                )
                return False
            if not (answer.get("status") or {}).get("allowed"):
                refused.append(verb)
        section.require(
            not refused,
            f"may {', '.join(right.verbs)} {right.name}",
            f"may not {', '.join(refused)} {right.name}",
            f"add the verbs {', '.join(refused)} on {right.name} to the ClusterRole of the agent"
            " (deploy/agent-chart has it)",
        )
        return not refused

    def _check_schemas(self, section: Section, *, has_groups: bool) -> None:
        """Check that statuses have a field for effective quotas."""
        document = self._api.request("GET", _SCHEMAS)
        schemas = (document.get("components") or {}).get("schemas") or {}
        kinds = ["ClusterQueue", *(["Cohort"] if has_groups else [])]
        lacking = [kind for kind in kinds if not _has_field(schemas, kind)]
        section.require(
            not lacking,
            f"the status of {' and '.join(kinds)} has {FIELD}",
            f"the status of {' and '.join(lacking)} has no {FIELD}: Kueue is too old",
            f"upgrade Kueue and enable its feature gate {_GATE}, or set [kubernetes] quotas = spec",
        )
        if not lacking:
            section.note(
                f"whether Kueue obeys {FIELD} cannot be seen from here",
                f"enable the feature gate {_GATE} of Kueue, and try it with one queue",
            )

    def _observe(self, section: Section, known: Known | None) -> Observation:
        """Read nodes, demand and namespaces, and look at queues of members."""
        observed = self._cluster.observe()
        label = self._configuration.class_label
        drained = sum(node.draining for node in observed.nodes)
        section.require(
            observed.nodes,
            f"{len(observed.nodes)} nodes, {drained} of them out of service",
            "there is no node",
            "add nodes to the cluster",
        )
        plain = [node.name for node in observed.nodes if label not in node.labels]
        if plain:
            section.note(
                f"{len(plain)} nodes lack the label {label}, such as {plain[0]}:"
                " they are one class of their own",
                "label them, or set [kubernetes] class_label to a label that all have",
            )
        if self._is_kueue and known is not None:
            self._check_queues(section, known)
        return observed

    def _check_queues(self, section: Section, known: Known) -> None:
        """Look for queues that are missing, or that others manage."""
        queues = {item["metadata"]["name"]: item for item in self._cluster.listed(QUEUES.path())}
        mine = sorted(known.members & queues.keys())
        if not self._is_effective:
            foreign = [name for name in mine if not _is_rendered(queues[name])]
            if foreign:
                section.note(
                    f"queues of others that the first round changes: {', '.join(foreign)}",
                    "keep a copy: kubectl get clusterqueue NAME -o yaml",
                )
            return
        absent = sorted(known.members - queues.keys())
        without = f"without a ClusterQueue of their name: {', '.join(absent)}"
        remedy = "create them: the agent writes no spec (docs/guides/kueue.md has a start)"
        if absent and known.has_clusters:
            section.note(f"members of other clusters, or {without}", remedy)
        else:
            section.require(
                not absent,
                f"each of {len(known.members)} members has its ClusterQueue",
                f"members {without}",
                remedy,
            )
        cohorts = self._cluster.listed(COHORTS.path()) if known.groups else []
        reference = orchestrator(self._configuration.pool)
        for kind, items in (("ClusterQueue", [queues[name] for name in mine]), ("Cohort", cohorts)):
            for item in items:
                owner = orchestrator_of(item)
                if owner not in (None, reference):
                    section.missing(
                        f"{kind} {item['metadata']['name']} has effective quotas of"
                        f" {owner.get('kind')} {owner.get('name')}",
                        "let one orchestrator manage it",
                    )


def _has_field(schemas: Mapping[str, Any], kind: str) -> bool:
    """Return true if the status of a kind names the field."""
    # Kubernetes derives the names of schemas from packages, so the kind identifies one.
    return any(
        FIELD in (schema.get("properties") or {}).get("status", {}).get("properties", {})
        for schema in schemas.values()
        for identity in schema.get("x-kubernetes-group-version-kind") or []
        if identity == {"group": _GROUP, "version": _VERSION, "kind": kind}
    )


def _is_rendered(queue: Manifest) -> bool:
    """Return true if a queue is of a rendering."""
    return "allocator.pool" in (queue["metadata"].get("labels") or {})
