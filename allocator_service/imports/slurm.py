"""Nodes from `scontrol show node --json` and `sinfo --json`.

Slurm counts memory in MiB. A node that drains, is down, fails or is under maintenance is draining.
Labels are the first partition of a node, its features, the types of its generic resources, and its
switch if the file has the output of `scontrol show topology`.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.checks import (
    MAX_LABELS,
    MAX_TEXT,
    check_labels,
    check_slug,
    check_text,
)
from allocator_service.imports.measures import ROUND_CAPACITY, Measures
from allocator_service.imports.reading import (
    check_row_count,
    errors_of,
    list_at,
    object_at,
)
from allocator_service.imports.rows import NodeFile, NodeRow, Owner, Place, RefusedRow
from allocator_service.imports.slurm_content import label_text, slurm_content, switches_of

UNAVAILABLE_STATES = ("DRAIN", "DOWN", "FAIL", "MAINT")
GRES_LABEL = "gres."
PARTITION_LABEL = "partition"
SWITCH_LABEL = "switch"
FEATURE_VALUE = "true"
# The look-ahead and the possessive quantifiers keep the match linear: with backtracking, a long
# model would take quadratic time.
_GRES = re.compile(
    r"([a-zA-Z][\w-]*+)(?::((?=[0-9]*[a-zA-Z_.-])[\w.-]++))?(?::([0-9]{1,12}))?", re.ASCII
)
_OUTSIDE = re.compile(r"\([^()]*+\)")


def slurm_nodes(
    content: str | dict[str, Any], resources: Sequence[Resource], owner: Owner
) -> NodeFile:
    """Read nodes with CPUs, memory and generic resources. Features become labels.

    Raises `Unacceptable` for content that is not the output of either command.
    """
    document = slurm_content(content)
    measures, switches = Measures(resources), switches_of(document)
    rows: list[NodeRow | RefusedRow] = []
    for place, node in nodes_of(document):
        try:
            rows.append(_row(place, object_at(node), measures, owner, switches))
        except Unacceptable as error:
            name = node.get("name") if isinstance(node, dict) else ""
            rows.append(RefusedRow(place, str(name or "")[:80], errors_of(error)))
    return NodeFile(rows, measures.ignored)


@dataclass
class Partition:
    """The nodes of a partition.

    `classes` are the partitions that label them, and `least_cpus` the CPUs of the smallest.
    """

    classes: set[str] = field(default_factory=set)
    least_cpus: int = 0


@dataclass(frozen=True)
class Nodes:
    """Properties of the nodes that determine where a job can run.

    `types` has the types of generic resources by the label of nodes and its value.
    """

    partitions: Mapping[str, Partition]
    types: Mapping[str, Mapping[str, frozenset[str]]]
    switches: Mapping[str, str]

    @property
    def classes(self) -> set[str]:
        """The partitions that label nodes."""
        return {name for each in self.partitions.values() for name in each.classes}


def job_nodes(document: dict[str, Any]) -> Nodes:
    """Return the nodes of a file with jobs. Raises `Unacceptable` for one that cannot be read."""
    partitions: defaultdict[str, Partition] = defaultdict(Partition)
    types: defaultdict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    for _, item in nodes_of(document):
        node = object_at(item)
        names = _few_texts(node.get("partitions"), "/nodes/partitions")
        cpus = _number(node.get("cpus"), "/nodes/cpus")
        for name in names:
            each = partitions[name]
            each.classes.add(names[0])
            each.least_cpus = min(each.least_cpus or cpus, cpus)
        for kind, models in _models(_generic_resources(node.get("gres"))).items():
            types[GRES_LABEL + kind][_types_label(models)] = frozenset(models)
    return Nodes(dict(partitions), dict(types), switches_of(document))


def nodes_of(document: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Yield each node once, in the shape of `scontrol`, with its item."""
    if "sinfo" not in document:
        for number, node in enumerate(list_at(document, "nodes", "scontrol show node --json")):
            yield Place("item", number), node
        return
    # A node appears once for each of its partitions. Groups are compared once, not once for each
    # node.
    kinds: dict[str, int] = {}
    seen: dict[str, int] = {}
    count = 0
    groups = list_at(document, "sinfo", "sinfo --json")
    partitions: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for group in groups:
        partition = object_at(group, "partition").get("name")
        if partition:
            for name in _texts(object_at(group, "nodes").get("nodes"), "/nodes/nodes"):
                partitions[name][check_text(partition, "/partition/name")] = None
    for number, group in enumerate(groups):
        node = _node_of_group(group)
        kind = kinds.setdefault(json.dumps(node, default=str, sort_keys=True), len(kinds))
        names = _texts(object_at(group, "nodes").get("nodes"), "/nodes/nodes")
        count += len(names)
        check_row_count(count)
        for name in names:
            if seen.get(name) != kind:
                partitioned = {"name": name, "partitions": list(partitions[name])}
                yield Place("item", number), {**node, **partitioned}
            seen[name] = kind


def _node_of_group(group: dict[str, Any]) -> dict[str, Any]:
    return {
        "cpus": _uniform(object_at(group, "cpus")),
        "real_memory": _uniform(object_at(group, "memory")),
        "features": object_at(group, "features").get("total"),
        "gres": object_at(group, "gres").get("total"),
        "state": object_at(group, "node").get("state"),
    }


def _uniform(figures: dict[str, Any]) -> Any:
    """Return the figure that the nodes of a group share, or a text, which is refused, if they differ."""
    least, most = figures.get("minimum"), figures.get("maximum")
    return least if least == most else f"{least} to {most}"


def _row(
    place: Place,
    node: dict[str, Any],
    measures: Measures,
    owner: Owner,
    switches: Mapping[str, str],
) -> NodeRow:
    labels = dict.fromkeys(_few_texts(node.get("features"), "/features"), FEATURE_VALUE)
    for partition in _few_texts(node.get("partitions"), "/partitions")[:1]:
        # Of several partitions the first counts: a label has one value.
        labels[PARTITION_LABEL] = partition
    name = check_text(node.get("name"), "/name")
    if name in switches:
        labels[SWITCH_LABEL] = switches[name]
    counts: Counter[str] = Counter()
    unread: dict[str, str] = {}
    items = _generic_resources(node.get("gres"))
    for item in items:
        match = _GRES.fullmatch(item)
        if match is None:
            unread[item.partition(":")[0]] = item
            continue
        kind, model, number = match.groups()
        # A resource without a number is one.
        counts[kind] += int(number or 1)
        # A pool may count the GPUs of a type by themselves.
        if kind == "gpu" and model and measures.counts(gpus_of_type(model)):
            counts[gpus_of_type(model)] += int(number or 1)
    for kind, models in _models(items).items():
        labels[GRES_LABEL + kind] = _types_label(models)
    quantities: dict[str, object] = {
        **counts,
        **unread,  # an error if the pool counts its kind, and ignored otherwise
        "cpu": _number(node.get("cpus"), "/cpus"),
        "memory": f"{_number(node.get('real_memory'), '/real_memory')}Mi",
    }
    slug = owner.of(labels) or None
    return NodeRow(
        place,
        name,
        check_slug(slug, "/features") if slug else None,
        measures.vector(quantities, rounding=ROUND_CAPACITY, pointer=""),
        check_labels(labels, "/features"),
        # States have suffixes and flags, such as `DOWN*` and `IDLE+DRAIN`.
        draining=any(
            word in state.upper() for state in _states(node) for word in UNAVAILABLE_STATES
        ),
    )


def gpus_of_type(model: str) -> str:
    """Return the resource that counts the GPUs of one type."""
    return f"gpu_{model.lower()}"


def _models(items: Sequence[str]) -> dict[str, set[str]]:
    """Return the types of each generic resource."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for item in items:
        match = _GRES.fullmatch(item)
        if match is not None and match[2]:
            found[match[1]].add(match[2])
    return found


def _types_label(models: set[str]) -> str:
    return label_text(".".join(sorted(models)))


def _states(node: dict[str, Any]) -> list[str]:
    return [
        *_few_texts(node.get("state"), "/state"),
        *_few_texts(node.get("state_flags"), "/state_flags"),
    ]


def _texts(value: Any, pointer: str) -> list[str]:
    """Return the words of an array, or of a text separated by commas or plus signs."""
    if isinstance(value, str):
        value = re.split(r"[,+]", value)
    if not isinstance(value, list | None) or not all(isinstance(word, str) for word in value or []):
        raise Unacceptable(
            "Expected text or an array of texts.", code="import.shape", pointer=pointer
        )
    return [word for word in value or [] if word and word != "(null)"]


def _few_texts(value: Any, pointer: str) -> list[str]:
    """Return the words of one node, at most 64."""
    # The nodes of a group share one text, which is parsed once per node: a long one would take
    # quadratic time.
    size = len(value) if isinstance(value, str | list) else 0
    most = MAX_TEXT * MAX_LABELS if isinstance(value, str) else MAX_LABELS
    if size > most:
        raise Unacceptable(
            f"Expected at most {MAX_LABELS} words.", code="import.shape", pointer=pointer
        )
    return _texts(value, pointer)


def _number(value: Any, pointer: str) -> int:
    """Return a whole number, also from the object that wraps it in newer versions."""
    if isinstance(value, dict) and value.get("set", True) and not value.get("infinite", False):
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unacceptable(
            f"Expected one whole number, got {str(value)[:40]}: if the nodes of a group differ,"
            " import the output of scontrol show node --json.",
            code="field.type",
            pointer=pointer,
        )
    return value


def _generic_resources(value: Any) -> list[str]:
    """Return the items of `gpu:a100:4(S:0-1),gpu:2` without their sockets."""
    text = value if isinstance(value, str) else ""
    if len(text) > MAX_TEXT * MAX_LABELS:
        raise Unacceptable(
            f"Expected at most {MAX_TEXT * MAX_LABELS} characters.",
            code="field.length",
            pointer="/gres",
        )
    return [item for item in _OUTSIDE.sub("", text).split(",") if item]
