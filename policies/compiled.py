"""How inner loops are compiled: once, and kept on disk for as long as no kernel's source changes.

Numba notices a change in a kernel's own file, not in the file of a kernel that it calls. The cache is
therefore in a folder named after the sources of all kernels: new sources, new folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

_PACKAGE = Path(__file__).parent
_MARK = b"from policies.compiled import compiled"


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of arrays and numbers; sums may be reordered to vectorise.

    The order is fixed when compiling, so the same input gives the same bits. Division by 0 gives
    what NumPy gives; checking for it would keep loops from being vectorised.
    """
    return _kept(function, {"reassoc", "contract", "nsz"})


def compiled_in_order(function: Callable[..., Any]) -> Callable[..., Any]:
    """As :func:`compiled`, but every operation as written: for arithmetic on rounding errors."""
    return _kept(function, set())


def _kept(function: Callable[..., Any], fast: set[str]) -> Callable[..., Any]:
    config: Any = numba.config
    chosen = config.CACHE_DIR
    config.CACHE_DIR = str(Path(chosen or _PACKAGE / "__pycache__") / f"kernels-{_sources()}")
    try:
        kernel: Callable[..., Any] = numba.njit(
            cache=True, error_model="numpy", fastmath=fast or False
        )(function)
    finally:
        config.CACHE_DIR = chosen
    return kernel


@cache
def _sources() -> str:
    """A digest of every module of this package that has kernels."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        content = path.read_bytes()
        if _MARK in content:
            name = path.relative_to(_PACKAGE).as_posix()
            digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]
