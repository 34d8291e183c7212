"""The JSON shape of a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from policies.arrays import FloatArray
from policies.documents.fields import as_amounts, as_number, as_object, check_fields, escaped
from policies.errors import ProblemError
from policies.model.history import (
    History,
    check_amounts,
    check_positive,
    least_degree,
    sharing_degrees,
)


def history_from_document(
    document: Mapping[str, Any], tenants: Sequence[str], resources: Sequence[str]
) -> History:
    """Read the ``history`` of an evaluation: a tenant or amount that is missing is 0.

    Args:
        document: ``{"step", "elapsed", "tenants": {name: {"used", "alone", "waiting"}}}``, all
            but ``step`` optional; ``sharing_degree``, which answers add, is ignored.
        tenants, resources: names in the order of the problem.

    Raises:
        ProblemError: an unknown tenant, resource or field, a step that is not above 0, an
            amount that is negative or not finite.
    """
    check_fields(document, "/history", required=("step",), optional=("elapsed", "tenants"))
    step = as_number(document["step"], "/history/step", "history")
    check_positive(step)
    elapsed = as_number(document.get("elapsed", 0), "/history/elapsed", "history")
    shape = (len(tenants), len(resources))
    used, alone, literal = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    waiting = np.zeros(len(tenants))
    has_literal = False
    index = {name: i for i, name in enumerate(tenants)}
    entries = as_object(document.get("tenants", {}), "/history/tenants")
    for name, value in entries.items():
        pointer = f"/history/tenants/{escaped(name)}"
        if name not in index:
            raise ProblemError("tenant.unknown", f"there is no tenant {name!r}", pointer)
        i, entry = index[name], as_object(value, pointer)
        optional = ("used", "alone", "waiting", "literal", "sharing_degree")
        check_fields(entry, pointer, required=(), optional=optional)
        used[i] = _amounts(entry, "used", pointer, resources)
        alone[i] = _amounts(entry, "alone", pointer, resources)
        waiting[i] = as_number(entry.get("waiting", 0), f"{pointer}/waiting", "history")
        check_amounts("waiting", waiting[i : i + 1], f"{pointer}/waiting")
        if entry.get("literal") is not None:
            within = as_object(entry["literal"], f"{pointer}/literal")
            check_fields(
                within, f"{pointer}/literal", required=(), optional=("alone", "sharing_degree")
            )
            literal[i] = _amounts(within, "alone", f"{pointer}/literal", resources)
            has_literal = True
    return History(
        step=step,
        used=used,
        alone=alone,
        waiting=waiting,
        elapsed=elapsed,
        literal_alone=literal if has_literal else None,
    )


def history_to_document(
    history: History, tenants: Sequence[str], resources: Sequence[str]
) -> dict[str, Any]:
    """Write what :func:`history_from_document` reads, with every tenant's sharing degree."""
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


def _amounts(
    entry: Mapping[str, Any], what: str, pointer: str, resources: Sequence[str]
) -> FloatArray:
    within = f"{pointer}/{what}"
    amounts = np.array(as_amounts(entry.get(what, {}), within, resources, "history"))
    for r, name in enumerate(resources):
        check_amounts(f"{what} of {name}", amounts[r : r + 1], f"{within}/{name}")
    return amounts
