"""The JSON shape of tasks of several pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from policies.documents.quantities import quantities
from policies.documents.request_fields import Part, WholeField
from policies.errors import Mistake
from policies.fields import AmountsField, Field, ListField, Mistakes, StringField
from policies.model.gangs import MOST_KINDS, MOST_PIECES, Gang
from policies.model.problem import Problem


class PieceDocument(Part):
    count = WholeField(
        minimum=1, maximum=MOST_PIECES, code="workload.pieces", default=1,
        description="Number of pieces of this kind in a task.",
    )  # fmt: skip
    demand = AmountsField(
        unknown="demand.unknown_resource", zero="demand.zero", description="Of each piece."
    )


def gang_fields(resources: Mapping[str, str] | None = None) -> tuple[Field, Field, Field, Field]:
    """Return the fields ``pieces``, ``per_server``, ``together`` and ``at_least`` of a workload.

    Args:
        resources: units of the resources by name, None if they are not known.
    """
    piece = PieceDocument.with_fields(demand=PieceDocument.demand.within(resources))
    return (
        ListField(
            piece, max_items=MOST_KINDS, code="workload.pieces", required=False, allow_null=True,
            description="Kinds of pieces of one task, which run at once or not at all, each on one "
            "server. Null is one piece of the demand.",
        ),
        WholeField(
            minimum=1, maximum=MOST_PIECES, code="workload.per_server", required=False,
            allow_null=True,
            description="Most pieces of one task on one server; null is any number.",
        ),
        StringField(
            required=False, allow_null=True,
            description="Label of servers. All pieces of a task run on servers with the same value of "
            "it. Null is any servers.",
        ),
        WholeField(
            minimum=1, maximum=MOST_PIECES, code="workload.at_least", default=1,
            description="Number of tasks that start at once, if none runs.",
        ),
    )  # fmt: skip


def gangs_from_columns(columns: Mapping[str, Sequence[Any]]) -> dict[int, Gang]:
    """Return the gangs of an evaluation's workloads, its fields read, by index.

    Raises:
        Mistakes: ``field.missing`` or ``workload.pieces``.
    """
    gangs, found = {}, []
    names = ("demand", "pieces", "per_server", "together", "at_least")
    rows = zip(*(columns[name] for name in names), strict=True)
    for j, (demand, pieces, per_server, together, at_least) in enumerate(rows):
        if pieces is None and demand is None:
            detail = "A workload must have a demand, or pieces with demands."
            found.append(Mistake(f"/workloads/{j}/demand", "field.missing", detail))
            continue
        is_plain = at_least == 1 and not (per_server or together)
        # Not a gang, because plain tasks have a faster way through every policy.
        if pieces is None and is_plain:
            continue
        gang = Gang(
            np.array([each["count"] for each in pieces or [{"count": 1}]]),
            np.array([each["demand"] for each in pieces or [{"demand": demand}]], dtype=np.float64),
            per_server=per_server or 0,
            together=together or "",
            at_least=at_least,
        )
        # A client may have added up floats: 0.1 + 0.2 is not the 0.3 of the decimals.
        if demand is not None and not np.allclose(gang.total, demand, 1e-12, 0.0):
            detail = "The demand differs from the sum of the pieces. Leave it out."
            found.append(Mistake(f"/workloads/{j}/demand", "workload.pieces", detail))
        gangs[j] = gang
    if found:
        raise Mistakes(found)
    return gangs


def gang_to_document(problem: Problem, workload: int) -> dict[str, Any]:
    """Return the fields of a workload with a gang, or nothing for others."""
    gang = problem.gangs.get(workload)
    if gang is None:
        return {}
    return {
        "pieces": [
            {"count": count, "demand": quantities(problem.resources, demand)}
            for count, demand in zip(gang.count.tolist(), gang.demand, strict=True)
        ],
        "per_server": gang.per_server or None,
        "together": gang.together or None,
        "at_least": gang.at_least,
    }
