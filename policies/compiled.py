"""Compilation of inner loops, with a cache on disk until a kernel's source changes.

Numba notices a change in a kernel's own file, not in the file of a kernel that it calls. The cache
is therefore in a folder named after the sources of all kernels: new sources, new folder.

A kernel whose parameters are annotated is compiled for those types and no others: arrays that it
only reads are ``Floats1`` and the like, which take writable and read-only arrays; those that it
writes are ``OutFloats1``. A kernel without annotations is compiled for what it is first called
with; later arguments that differ only in being read-only, or whole numbers, take that version.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import os
import typing
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numba
import numpy as np
from numba import types
from numba.core import caching, registry

from policies.arrays import BoolArray, FloatArray, IntArray

_PACKAGE = Path(__file__).parent
_MARK = b"\n@compiled"
# Numba has no types of its own.
_Dispatcher: Any = registry.CPUDispatcher
_Files: Any = caching.IndexDataCacheFile
_Cache: Any = caching.FunctionCache
_Implementation: Any = caching.CompileResultCacheImpl
_ChosenFolder: Any = caching.UserProvidedCacheLocator
_named_tuple: Any = types.NamedTuple
_typeof: Any = numba.typeof
_members: Any = tuple
_without_value: Any = types.unliteral
_COMPLETE = "complete"
_SCALARS = {int: types.int64, float: types.float64, bool: types.boolean}


def _array(scalar: Any, dimensions: int, *, read_only: bool = True) -> Any:
    return types.Array(scalar, dimensions, "C", readonly=read_only)


Floats1 = Annotated[FloatArray, _array(types.float64, 1)]
Floats2 = Annotated[FloatArray, _array(types.float64, 2)]
Floats3 = Annotated[FloatArray, _array(types.float64, 3)]
Ints1 = Annotated[IntArray, _array(types.int64, 1)]
Ints2 = Annotated[IntArray, _array(types.int64, 2)]
Ints3 = Annotated[IntArray, _array(types.int64, 3)]
Bools1 = Annotated[BoolArray, _array(types.boolean, 1)]
Bools2 = Annotated[BoolArray, _array(types.boolean, 2)]
Bools3 = Annotated[BoolArray, _array(types.boolean, 3)]
OutFloats1 = Annotated[FloatArray, _array(types.float64, 1, read_only=False)]
OutFloats2 = Annotated[FloatArray, _array(types.float64, 2, read_only=False)]
OutFloats3 = Annotated[FloatArray, _array(types.float64, 3, read_only=False)]
OutInts1 = Annotated[IntArray, _array(types.int64, 1, read_only=False)]
OutInts2 = Annotated[IntArray, _array(types.int64, 2, read_only=False)]
OutInts3 = Annotated[IntArray, _array(types.int64, 3, read_only=False)]
OutBools1 = Annotated[BoolArray, _array(types.boolean, 1, read_only=False)]
OutBools2 = Annotated[BoolArray, _array(types.boolean, 2, read_only=False)]

KERNELS: list[Kernel] = []


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of arrays and numbers with sums that may be reordered to vectorise.

    The order is fixed when compiling, so the same input gives the same bits, as long as a sum is
    collected in a local variable. In an element of an array it is reordered only where no other
    array lies close by in memory. Division by 0 gives what NumPy gives; checking for it would keep
    loops from being vectorised.
    """
    # Neither nnan nor ninf: they let LLVM assume infinity away, which stands for tenants that
    # left.
    return _kept(function, {"reassoc", "contract", "nsz"})


def compiled_in_order(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function like :func:`compiled`, but with every operation in the order written.

    It is for arithmetic on rounding errors.
    """
    return _kept(function, set())


class Kernel(_Dispatcher):  # type: ignore[misc]
    """A compiled function that is compiled for its annotations when it is first needed."""

    def enable_caching(self) -> None:
        """Keep what is compiled, in files that several processes may write at once."""
        self._cache = _KernelCache(self.py_func)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Prepare the kernel for a call from another kernel, and then do as numba does.

        A number in the caller's source is of its type. A version for its value would take as long to
        compile as any other one.
        """
        self.prepare()
        return super().get_call_template([_without_value(arg) for arg in args], kws)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        if self._can_compile and self.prepare():
            return self  # to be called with the same arguments, once more
        for signature in self.overloads:
            fitting = [_fitting(*each) for each in zip(args, signature, strict=False)]
            if len(args) == len(signature) and _types(fitting) == tuple(signature):
                return lambda *_: self(*fitting)
        return super()._compile_for_args(*args, **kws)

    def prepare(self) -> bool:
        """Compile or load the version for the annotations.

        Return False if there are none.
        """
        if self._can_compile and inspect.get_annotations(self.py_func):
            self.compile(_signature(self.py_func))
            self.disable_compile()
        return not self._can_compile


def _types(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(_typeof(value) for value in values)


def _fitting(value: Any, expected: Any) -> Any:
    """Return a value converted to the parameter type of an existing version.

    Whole numbers become floats, and arrays writable or read-only.
    """
    if isinstance(value, tuple) and isinstance(expected, types.BaseTuple):
        members = _members(expected)
        if len(value) != len(members):
            return value  # that version is for another tuple
        parts = [_fitting(*each) for each in zip(value, members, strict=True)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, np.ndarray) and isinstance(expected, types.Array):
        if not value.flags.writeable:
            value = value.copy()  # an array that a kernel writes to must be writable already
        if not expected.mutable:
            value = value.view()
            value.setflags(write=False)
    if expected == types.float64 and isinstance(value, int | np.integer):
        return float(value)
    return value


def _signature(function: Callable[..., Any]) -> tuple[Any, ...]:
    hints = typing.get_type_hints(function, include_extras=True)
    return tuple(_type_of(hints[name]) for name in inspect.signature(function).parameters)


def _type_of(hint: Any) -> Any:
    """Return the numba type of an annotation of a scalar, an array as above, or a tuple of them."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if typing.get_origin(hint) is Annotated:
        return hint.__metadata__[0]
    fields = typing.get_type_hints(hint, include_extras=True)
    return _named_tuple([_type_of(fields[name]) for name in hint._fields], hint)


class _KernelFiles(_Files):  # type: ignore[misc]
    """Files of one kernel, which stay intact if a process is killed while it writes."""

    def save(self, key: Any, data: Any) -> None:
        """Store a version under a name of its own, and then enter it in the index."""
        name = (
            f"{Path(self._index_path).stem}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}"
        )
        if not os.access(self._cache_path, os.W_OK):
            return  # complete on a read-only file system, and this version is another one's
        # Before the index: a process that is killed in between leaves a file that no index names.
        self._save_data(f"{name}.nbc", data)
        # Of two processes that add a version at once, one would drop the entry of the other.
        with Path(self._cache_path, "lock").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            self._save_index({**self._load_index(), key: f"{name}.nbc"})


class _Folder(_ChosenFolder):  # type: ignore[misc]
    """The folder of the kernels, which may be read-only once every kernel is in it."""

    def ensure_cache_path(self) -> None:
        path = Path(self.get_cache_path())
        if not (path.is_dir() and (path.parent / _COMPLETE).exists()):
            super().ensure_cache_path()


class _KernelImplementation(_Implementation):  # type: ignore[misc]
    _locator_classes = (_Folder, *_Implementation._locator_classes)


class _KernelCache(_Cache):  # type: ignore[misc]
    _impl_class = _KernelImplementation

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = _KernelFiles(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=locator.get_source_stamp(),
        )


def is_complete() -> bool:
    """Return whether every kernel of these sources is compiled and stored."""
    return (_folder() / _COMPLETE).exists()


def note_complete() -> None:
    """Record for later processes that all kernels are compiled."""
    if _folder().exists():  # nothing is kept where compiling is switched off
        (_folder() / _COMPLETE).touch()


def _kept(function: Callable[..., Any], fast: set[str]) -> Callable[..., Any]:
    config: Any = numba.config
    if config.DISABLE_JIT:
        return function
    chosen = config.CACHE_DIR
    # Numba reads the folder from its configuration while a cache is made, and takes no argument.
    config.CACHE_DIR = str(_folder())
    try:
        kernel = Kernel(
            py_func=function,
            targetoptions={
                "nopython": True,
                "error_model": "numpy",
                "fastmath": fast or False,
                "no_cfunc_wrapper": True,  # no kernel is called from C
            },
        )
        kernel.enable_caching()
    finally:
        config.CACHE_DIR = chosen
    KERNELS.append(kernel)
    return kernel


def _folder() -> Path:
    config: Any = numba.config
    return Path(config.CACHE_DIR or _PACKAGE / "__pycache__") / f"kernels-{_sources()}"


@cache
def _sources() -> str:
    """Return a digest of this module and every module of the package that has kernels."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        content = path.read_bytes()
        if _MARK in content or path == Path(__file__):
            name = path.relative_to(_PACKAGE).as_posix()
            # With separators, or text that moves from one file to the next would go unnoticed.
            digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]
