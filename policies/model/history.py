"""What long-term policies remember: resource × time that each tenant used, and would have used alone.

Source: Tang et al., TPDS 2018, §4, with the references and windows of policies §4. A history is an
input of a step and, with the step added, part of its answer; feeding it back continues exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from policies.arrays import FloatArray
from policies.documents.fields import as_amounts, as_number, as_object, check_fields, escaped
from policies.errors import ProblemError
from policies.model.problem import Problem


@dataclass(frozen=True, eq=False, kw_only=True)
class History:
    """Who used what over the window so far; rows are the problem's tenants in their order.

    Attributes:
        step: ``dt``, length of the step that is decided next (or was, in an answer), in any
            unit of time; everything below is in the same one.
        used: (t, m) resource × time that was allocated.
        alone: (t, m) resource × time that it would have used in its own partition.
        waiting: (t,) for how long it has had pending tasks and received nothing.
        elapsed: length of the window so far.
        literal_alone: (t, m) ``alone`` by the paper's formula (2) read literally, or None where
            nobody asked for it.
    """

    step: float
    used: FloatArray
    alone: FloatArray
    waiting: FloatArray
    elapsed: float = 0.0
    literal_alone: FloatArray | None = None

    def __post_init__(self) -> None:
        _check_positive(self.step)
        tenants, resources = self.used.shape[:1], self.used.shape
        expected = [("used", self.used, resources), ("alone", self.alone, resources)]
        expected += [("waiting", self.waiting, tenants)]
        if self.literal_alone is not None:
            expected += [("literal_alone", self.literal_alone, resources)]
        for what, values, shape in expected:
            if values.shape != shape:
                raise ProblemError(
                    "history.shape",
                    f"{what} has shape {values.shape}; it needs {shape}",
                    "/history",
                )
            _check_amounts(what, values, "/history")
            values.setflags(write=False)
        _check_amounts("elapsed", np.array([self.elapsed]), "/history/elapsed")

    @classmethod
    def zeros(cls, problem: Problem, step: float = 1.0) -> History:
        """Nothing remembered: the beginning of a window."""
        shape = (problem.t, problem.m)
        return cls(
            step=step, used=np.zeros(shape), alone=np.zeros(shape), waiting=np.zeros(problem.t)
        )

    @cached_property
    def sharing_degrees(self) -> FloatArray:
        """(t, m) ``β[i, r] = used / alone`` (paper, formula (2)); NaN where ``alone`` is 0."""
        return sharing_degrees(self.used, self.alone)

    @cached_property
    def sharing_degree(self) -> FloatArray:
        """(t,) ``β[i]``, the least over resources (paper, formula (3)); NaN without any ``alone``."""
        return least_degree(self.sharing_degrees)


def sharing_degrees(used: FloatArray, alone: FloatArray) -> FloatArray:
    """``used / alone``; NaN where ``alone`` is 0."""
    degrees = np.full(used.shape, np.nan)
    with np.errstate(over="ignore"):
        np.divide(used, alone, out=degrees, where=alone > 0)
    finite: FloatArray = np.minimum(degrees, np.finfo(np.float64).max)
    return finite


def least_degree(degrees: FloatArray) -> FloatArray:
    """(t,) the least of each row of (t, m) that is a number; NaN where none is."""
    least = np.where(np.isnan(degrees), np.inf, degrees).min(axis=1, initial=np.inf)
    return np.where(np.isinf(least), np.nan, least)


def check_history_fits(problem: Problem, history: History) -> None:
    """Raise ProblemError unless the history has a row per tenant and a column per resource."""
    if history.used.shape != (problem.t, problem.m):
        raise ProblemError(
            "history.shape",
            f"the history has shape {history.used.shape}; the problem's tenants and resources "
            f"need {(problem.t, problem.m)}",
            "/history",
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
    _check_positive(step)
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
        _check_amounts("waiting", waiting[i : i + 1], f"{pointer}/waiting")
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
        _check_amounts(f"{what} of {name}", amounts[r : r + 1], f"{within}/{name}")
    return amounts


def _check_positive(step: float) -> None:
    if not (np.isfinite(step) and step > 0):
        raise ProblemError(
            "history.step", f"step is {step}; it must be a number above 0", "/history/step"
        )


def _check_amounts(what: str, values: FloatArray, pointer: str) -> None:
    wrong = values[~(np.isfinite(values) & (values >= 0))]
    if len(wrong):
        raise ProblemError(
            "history.amount", f"{what} is {wrong[0]}; it must be a number, 0 or more", pointer
        )
