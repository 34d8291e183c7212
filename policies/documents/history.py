"""The JSON shape of a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from policies.arrays import FloatArray
from policies.documents.request import history_for
from policies.errors import ProblemError
from policies.fields import Mistakes
from policies.model.history import History, least_degree, sharing_degrees


def history_from_document(
    document: Mapping[str, Any], tenants: Sequence[str], resources: Sequence[str]
) -> History:
    """Read the ``history`` of an evaluation.

    A missing tenant or amount is 0.

    Parameters
    ----------
    document : mapping
        ``{"step", "elapsed", "tenants": {name: {"used", "alone", "waiting"}}}``, all but ``step``
        optional; ``sharing_degree``, which answers add, is ignored.
    tenants, resources : sequence of str
        Names in the order of the problem.

    Returns
    -------
    History
        The state of a long-term policy before a step.

    Raises
    ------
    ProblemError
        An unknown tenant, resource or field, a step that is not above 0, or an amount that is
        negative or not finite.

    Examples
    --------
    >>> from policies import history_from_document
    >>> tenants = {"A": {"used": {"cpu": 5}}}
    >>> history_from_document({"step": 60, "tenants": tenants}, ["A", "B"], ["cpu"]).used.tolist()
    [[5.0], [0.0]]
    """
    index = {name: i for i, name in enumerate(tenants)}
    try:
        given = history_for(index, dict.fromkeys(resources, "")).read(document)
    except Mistakes as wrong:
        raise ProblemError.of(wrong.under("history")) from None
    return history_from_fields(given, len(tenants), len(resources))


def history_from_fields(given: Mapping[str, Any], tenants: int, resources: int) -> History:
    """Return the history of so many tenants and resources from the fields that were read."""
    used, alone, literal = (np.zeros((tenants, resources)) for _ in range(3))
    waiting = np.zeros(tenants)
    for i, row in given["tenants"].items():
        waiting[i] = row["waiting"]
        within = row["literal"] or {"alone": None}
        for table, amounts in (
            (used, row["used"]), (alone, row["alone"]), (literal, within["alone"]),
        ):  # fmt: skip
            if amounts is not None:
                table[i] = amounts
    has_literal = any(row["literal"] is not None for row in given["tenants"].values())
    return History(
        step=given["step"],
        used=used,
        alone=alone,
        waiting=waiting,
        elapsed=given["elapsed"],
        literal_alone=literal if has_literal else None,
    )


def history_to_document(
    history: History, tenants: Sequence[str], resources: Sequence[str]
) -> dict[str, Any]:
    """Write what :func:`history_from_document` reads, with every tenant's sharing degree.

    Parameters
    ----------
    history : History
        The state of a long-term policy.
    tenants, resources : sequence of str
        Names in the order of the problem.

    Returns
    -------
    dict
        The ``history`` of an answer.

    Examples
    --------
    >>> from policies import History, Problem, history_to_document
    >>> problem = Problem.create(resources=["cpu"], capacity=[[9]], tenants=["A"], demand=[[1]])
    >>> document = history_to_document(History.zeros(problem), problem.tenants, problem.resources)
    >>> document["tenants"]["A"]["used"]
    {'cpu': 0.0}
    """
    rows = {}
    for i, name in enumerate(tenants):
        row: dict[str, Any] = {
            "used": _named(resources, history.used[i]),
            "alone": _named(resources, history.alone[i]),
            "waiting": float(history.waiting[i]),
            "sharing_degree": _degree_document(resources, history.used[i], history.alone[i]),
        }
        if history.literal_alone is not None:
            literal = history.literal_alone[i]
            row["literal"] = {
                "alone": _named(resources, literal),
                "sharing_degree": _degree_document(resources, history.used[i], literal),
            }
        rows[name] = row
    return {"step": float(history.step), "elapsed": float(history.elapsed), "tenants": rows}


def _degree_document(
    resources: Sequence[str], used: FloatArray, alone: FloatArray
) -> dict[str, Any]:
    degrees = sharing_degrees(used[None, :], alone[None, :])
    least = float(least_degree(degrees)[0])
    document: dict[str, Any] = {
        "resources": {
            name: None if np.isnan(degree) else degree
            for name, degree in zip(resources, degrees[0].tolist(), strict=True)
        },
        "min": None if np.isnan(least) else least,
    }
    absent = [name for name, value in document["resources"].items() if value is None]
    if absent:
        document["reason"] = f"alone it would have used no {', '.join(absent)}"
    return document


def _named(resources: Sequence[str], amounts: FloatArray) -> dict[str, float]:
    return dict(zip(resources, amounts.tolist(), strict=True))
