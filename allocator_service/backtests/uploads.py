"""Uploaded traces, unpacked within a limit and read by the reader of their format."""

import base64
import binascii
import gzip
import io
import tempfile
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from allocator_service.backtests.errors import MAX_TASKS, MAX_TRACE_BYTES, of_policy, too_large
from allocator_service.core.errors import Unacceptable
from policies import PolicyError, ProblemError, ProblemTooLargeError
from policies.simulation.traces import (
    Submitted,
    TraceLineError,
    read_alibaba,
    read_google_t0,
    read_sacct,
    read_swf,
    read_swim,
    read_table,
)

# So much of a trace is read before it is accepted, so that a wrong format, or options that it does not
# take, are reported at once.
HEAD_BYTES = 64 * 1024
_CHUNK_BYTES = 1024 * 1024
# Where a member of a gzip file begins; a few more places look like it by chance.
_MEMBER = b"\x1f\x8b\x08"
MOST_MEMBERS = 10_000


class Format(NamedTuple):
    """A format of traces, with its reader, the options that it takes, and units by resource.

    With `absolute`, its times are seconds since 1970. With `bounded`, a line of it may be many tasks,
    which the reader counts.
    """

    read: Callable[..., Submitted]
    options: frozenset[str]
    units: Mapping[str, str]
    absolute: bool = False
    bounded: bool = False


# Where the option stands that a reader refuses.
_FIELDS = {
    "trace.tenant": "tenant",
    "trace.resource": "resources",
    "trace.tasks": "processors_per_task",
    "trace.nodes": "processors_per_node",
    "trace.tenants": "tenants",
}

FORMATS: Mapping[str, Format] = {
    "csv": Format(read_table, frozenset(), {}, bounded=True),
    "sacct": Format(
        read_sacct,
        frozenset({"tenant", "resources", "gangs"}),
        {"cpu": "core", "memory": "GiB"},
        absolute=True,
        bounded=True,
    ),
    "swf": Format(
        read_swf,
        frozenset({"tenant", "memory", "processors_per_task", "processors_per_node"}),
        {"cpu": "core", "memory": "KiB"},
        bounded=True,
    ),
    "google": Format(read_google_t0, frozenset(), {}),
    "alibaba": Format(
        read_alibaba, frozenset({"tenants"}), {"cpu": "core", "memory": "MiB", "gpu": "gpu"}
    ),
    "swim": Format(
        partial(read_swim, seed=0, jobs=MAX_TASKS),
        frozenset({"jobs", "tenants", "seed"}),
        {"cpu": "core", "memory": "GB"},
        bounded=True,
    ),
}


def packed(content: str, encoding: str) -> bytes:
    """Return the trace as gzip, from a text or from gzip in base64.

    Raises `Unacceptable` for any other content, and `TooLarge` for a text that is too long.
    """
    if encoding == "text":
        plain = content.encode()
        if len(plain) > MAX_TRACE_BYTES:
            raise _too_long()
        return gzip.compress(plain, compresslevel=1, mtime=0)
    try:
        compressed = base64.b64decode(content, validate=True)
        _refuse_members(compressed)
        with gzip.open(io.BytesIO(compressed)) as file:
            file.read(1)
    except (binascii.Error, ValueError, OSError, EOFError, zlib.error) as error:
        raise Unacceptable(
            f"The content is not gzip in base64, which its encoding requires: {error}.",
            code="trace.encoding",
            pointer="/trace/content",
        ) from error
    return compressed


def _refuse_members(compressed: bytes) -> None:
    """Reject a file of many gzip members, because even empty ones take time."""
    if compressed.count(_MEMBER) > MOST_MEMBERS:
        raise Unacceptable(
            f"Expected at most {MOST_MEMBERS:,} gzip members: compress the trace again.",
            code="trace.encoding",
            pointer="/trace/content",
        )


def head_checked(compressed: bytes, form: str, options: Mapping[str, Any]) -> None:
    """Read the beginning of a trace, or all of a short one, and reject a wrong format.

    Raises `Unacceptable` for a bad line, options that the format does not take, or no task at all.
    """
    try:
        with gzip.open(io.BytesIO(compressed)) as file:
            head, more = file.read(HEAD_BYTES), bool(file.read(1))
    except (OSError, EOFError, zlib.error) as error:
        raise _broken(error) from error
    if more:
        whole_lines, newline, _ = head.rpartition(b"\n")
        head = whole_lines + newline
    with tempfile.NamedTemporaryFile(suffix=".trace") as file_:
        file_.write(head)
        file_.flush()
        found = _read(Path(file_.name), form, options)
    if not more:
        refuse_empty(found)


def trace_read(compressed: bytes, form: str, options: Mapping[str, Any]) -> Submitted:
    """Read all of a trace.

    Raises `Unacceptable` for a bad line, by its number, or no task, and `TooLarge` if it unpacks to more
    than the limit.
    """
    with tempfile.NamedTemporaryFile(suffix=".trace") as plain:
        size = 0
        try:
            with gzip.open(io.BytesIO(compressed)) as file:
                while chunk := file.read(_CHUNK_BYTES):
                    size += len(chunk)
                    if size > MAX_TRACE_BYTES:
                        raise _too_long()
                    plain.write(chunk)
        except (OSError, EOFError, zlib.error) as error:
            raise _broken(error) from error
        plain.flush()
        found = _read(Path(plain.name), form, options)
    refuse_empty(found)
    return found


def refuse_empty(found: Submitted) -> None:
    """Raise `Unacceptable` for a trace without tasks, with the reasons for omitted lines."""
    if found.trace.tasks:
        return
    reasons = ", ".join(f"{count} because {reason}" for reason, count in found.left_out.items())
    if found.bad_lines:
        first = f"{found.bad_lines} lines cannot be read, the first is line {found.bad[0].line}"
        reasons = ", ".join(filter(None, (reasons, first)))
    raise Unacceptable(
        f"There is no task in the trace{': left out were ' + reasons if reasons else ''}.",
        code="trace.empty",
        pointer="/trace/content",
    )


def _read(path: Path, form: str, options: Mapping[str, Any]) -> Submitted:
    given = {name: value for name, value in options.items() if value is not None}
    known = FORMATS[form].options | {"skip_bad_lines"}
    for name in given:
        if name not in known:
            raise Unacceptable(
                f"A trace as {form} takes no {name}; it takes {', '.join(sorted(known))}.",
                code="trace.option",
                pointer=f"/trace/{name}",
            )
    if FORMATS[form].bounded:
        given["most_tasks"] = MAX_TASKS
    try:
        return FORMATS[form].read(path, **given)
    except TraceLineError as error:
        # The file is a temporary one, whose name means nothing to the sender.
        detail = error.detail.replace(f"{path.name} cannot be read", "it cannot be read")
        raise Unacceptable(detail, code=error.code, pointer="/trace/content") from error
    except ProblemTooLargeError as error:
        raise too_large(
            f"{error.detail[:1].upper()}{error.detail[1:]}: send a part of it."
        ) from error
    except ProblemError as error:
        name = _FIELDS.get(error.code, "content")
        raise Unacceptable(error.detail, code=error.code, pointer=f"/trace/{name}") from error
    except PolicyError as error:
        raise of_policy(error) from error


def _broken(error: Exception) -> Unacceptable:
    return Unacceptable(
        f"The gzip of the trace is broken: {error}.",
        code="trace.encoding",
        pointer="/trace/content",
    )


def _too_long() -> Exception:
    limit = MAX_TRACE_BYTES // 2**20
    return too_large(
        f"The trace is larger than {limit} MiB when it is unpacked: send a part of it."
    )
