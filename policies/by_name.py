"""Calls of public functions by their names.

A process that lets others solve can name a function without loading a solver.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def call_by_name(name: str, *arguments: Any, **keywords: Any) -> Any:
    """Call a public function of this package, which is loaded where it is called.

    Parameters
    ----------
    name : str
        As in ``policies.__all__``.
    *arguments, **keywords
        The function's.

    Returns
    -------
    object
        What the function returns.

    Examples
    --------
    >>> from policies import call_by_name
    >>> call_by_name("jain_index", [1.0, 1.0])
    1.0
    """
    return getattr(import_module("policies"), name)(*arguments, **keywords)
