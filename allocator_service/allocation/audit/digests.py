"""Digests of a decision's proof, for the chain."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from allocator_service.core.documents import canonical_bytes, canonical_form
from policies import Allocation, PlacementParts, allocation_to_document, placement_parts

_PLACEMENTS = "placements"
_OTHER_PARTS = ("certificate", "schedule")


def proven_answer(
    document: Mapping[str, Any], decision: Allocation, *, places: bool = True
) -> dict[str, Any]:
    """Return the answer of a decision's proof, with its placements unless `places` is false."""
    parts = (_PLACEMENTS, *_OTHER_PARTS) if places else _OTHER_PARTS
    answer = {"policy": document["policy"], **allocation_to_document(decision, parts)}
    certificate = answer["certificate"]
    if certificate is not None and not decision.choice.sees_one_pool:
        names = decision.problem.server_names
        certificate["servers"] = [
            [names[row] for row in decision.classes.rows_of(position)]
            for position in range(decision.classes.count)
        ]
    return answer


def decision_digests(
    document: Mapping[str, Any], written: bytes, decision: Allocation
) -> dict[str, str]:
    """Return the digests of a decision's proof, before it is stored.

    `written` is the document as JSON with sorted keys. The number of tasks on each of identical servers
    is stored. The digests are of placements in that form.
    """
    servers = decision.classes.servers[decision.placement_class]
    # Division and multiplication as when it is read back: floats need not return to the same number.
    stored = replace(decision, placement_tasks=servers * (decision.placement_tasks / servers))
    return {
        "input": _hexadecimal(canonical_form(written, document)),
        "answer": _answer_digest(document, stored),
    }


def digest_of(part: Any) -> str:
    """Return the SHA-256 of a part of a proof."""
    return _hexadecimal(canonical_bytes(part))


def _hexadecimal(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _answer_digest(document: Mapping[str, Any], decision: Allocation) -> str:
    """Return the digest of an answer, without a document for each of its placements."""
    answer = proven_answer(document, decision, places=False)
    try:
        placements = _placements_written(placement_parts(decision))
        fragment = orjson.Fragment(placements)
        written = orjson.dumps({**answer, _PLACEMENTS: fragment}, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        written = b"\\"
    if b"\\" in written:  # rare, and then all of it is written in another way
        return digest_of(proven_answer(document, decision))
    return _hexadecimal(canonical_form(written, answer))


def _placements_written(parts: PlacementParts) -> bytes:
    """Return the rows of placements as JSON with sorted keys.

    Any text with a backslash makes it invalid.
    """
    # Parts that many rows have in common are written once. The names of servers come after the amounts
    # of tasks, and before the tenant.
    heads, tails = [], []
    for each in parts.tasks:
        written = orjson.dumps(each, option=orjson.OPT_SORT_KEYS)
        # The last one: resources, which come before it, may have the same name.
        cut = written.rindex(b',"tasks":' if "tasks" in each else b',"tenant":')
        heads.append(written[:cut])
        tails.append(written[cut:])
    servers = [orjson.dumps(each, option=orjson.OPT_SORT_KEYS)[1:-1] for each in parts.servers]
    rows = [b"%b,%b%b" % (heads[what], servers[place], tails[what]) for what, place in parts.rows]
    return b"[" + b",".join(rows) + b"]"
