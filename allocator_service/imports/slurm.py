"""What `scontrol show node --json` and `sinfo --json` print, as nodes.

Slurm counts memory in MiB. A node that drains, is down, fails or is under maintenance is draining.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.checks import checked_labels, checked_slug, checked_text
from allocator_service.imports.measures import OFFERED, Measures
from allocator_service.imports.reading import findings_of, json_content, listed, part
from allocator_service.imports.rows import NodeFile, NodeRow, Owner, Place, RefusedRow

OUT_OF_WORK = ("DRAIN", "DOWN", "FAIL", "MAINT")
GRES_LABEL = "gres."
HAS_FEATURE = "true"
_GRES = re.compile(r"([a-zA-Z][\w-]*)(?::([\w.-]*[a-zA-Z_.-][\w.-]*))?(?::([0-9]{1,12}))?")


def slurm_nodes(
    content: str | dict[str, Any], resources: Sequence[Resource], owner: Owner
) -> NodeFile:
    """The nodes of a cluster: cpus, memory, generic resources, features as labels.

    Raises `Unacceptable` for content that neither command prints.
    """
    document = json_content(content)
    measures = Measures(resources)
    rows: list[NodeRow | RefusedRow] = []
    for place, node in _nodes(document):
        try:
            rows.append(_row(place, part(node), measures, owner))
        except Unacceptable as error:
            name = node.get("name") if isinstance(node, dict) else ""
            rows.append(RefusedRow(place, str(name or "")[:80], findings_of(error)))
    return NodeFile(rows, measures.ignored)


def _nodes(document: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    """The nodes in the shape of `scontrol`, each once, with the item that tells it."""
    if "sinfo" not in document:
        for number, node in enumerate(listed(document, "nodes", "scontrol show node --json")):
            yield Place("item", number), node
        return
    seen: dict[str, dict[str, Any]] = {}
    for number, group in enumerate(listed(document, "sinfo", "sinfo --json")):
        for name in part(group, "nodes").get("nodes") or []:
            node = _node_of_group(name, group)
            # A node appears once for each of its partitions.
            if seen.get(name) != node:
                yield Place("item", number), node
            seen[name] = node


def _node_of_group(name: Any, group: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "cpus": _same(part(group, "cpus")),
        "real_memory": _same(part(group, "memory")),
        "features": part(group, "features").get("total"),
        "gres": part(group, "gres").get("total"),
        "state": part(group, "node").get("state"),
    }


def _same(figures: dict[str, Any]) -> Any:
    """The one figure of all the nodes of a group; a text where they differ, which is refused."""
    least, most = figures.get("minimum"), figures.get("maximum")
    return least if least == most else f"{least} to {most}"


def _row(place: Place, node: dict[str, Any], measures: Measures, owner: Owner) -> NodeRow:
    labels = dict.fromkeys(_texts(node.get("features")), HAS_FEATURE)
    counts: Counter[str] = Counter()
    unread: dict[str, str] = {}
    for item in _generic_resources(node.get("gres")):
        match = _GRES.fullmatch(item)
        if match is None:
            unread[item.partition(":")[0]] = item
            continue
        kind, model, number = match.groups()
        counts[kind] += int(number or 1)
        if model:
            labels[GRES_LABEL + kind] = model
    quantities: dict[str, object] = {
        **counts,
        **unread,  # refused as no quantity, if the pool counts its kind
        "cpu": _number(node.get("cpus"), "/cpus"),
        "memory": f"{_number(node.get('real_memory'), '/real_memory')}Mi",
    }
    slug = owner.of(labels) or None
    return NodeRow(
        place,
        checked_text(node.get("name"), "/name"),
        checked_slug(slug, "/features") if slug else None,
        measures.vector(quantities, rounding=OFFERED, pointer=""),
        checked_labels(labels, "/features"),
        draining=any(word in state.upper() for state in _states(node) for word in OUT_OF_WORK),
    )


def _states(node: dict[str, Any]) -> list[str]:
    return _texts(node.get("state")) + _texts(node.get("state_flags"))


def _texts(value: Any) -> list[str]:
    """The words of an array, or of a text with commas or plus signs between them."""
    if isinstance(value, str):
        value = re.split(r"[,+]", value)
    if not isinstance(value, list | None) or not all(isinstance(word, str) for word in value or []):
        raise Unacceptable("Expected text or an array of texts.", code="import.shape", pointer="")
    return [word for word in value or [] if word and word != "(null)"]


def _number(value: Any, pointer: str) -> int:
    """A whole number, or the object in which newer versions put one."""
    if isinstance(value, dict) and value.get("set", True) and not value.get("infinite", False):
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unacceptable(
            f"Expected one whole number, not {str(value)[:40]}: import the output of scontrol show node"
            " --json, where nodes differ.",
            code="field.type",
            pointer=pointer,
        )
    return value


def _generic_resources(value: Any) -> list[str]:
    """The items of `gpu:a100:4(S:0-1),gpu:2`, without where they sit."""
    text = re.sub(r"\([^)]*\)", "", value) if isinstance(value, str) else ""
    return [item for item in text.split(",") if item]
