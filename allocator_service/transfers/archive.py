"""The archive of a pool, as one file that is written and read as a stream.

It is a tar file in gzip with three kinds of members, in this order:

1. `header.json`, what the archive is of, and what an installation must know before it reads rows.
2. `rows/<table>/<number>.copy`, rows of a table in the text format of PostgreSQL's COPY.
3. `manifest.json`, the name, the size and the SHA-256 of every member before it. An archive without
   one was cut.
"""

import gzip
import hashlib
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any, Self

import orjson

from allocator_service.core.errors import DomainError, Unacceptable

FORMAT, VERSION = "allocator-pool", 1
HEADER, MANIFEST = "header.json", "manifest.json"
MEMBER_BYTES = 4 << 20
CHUNK_BYTES = 1 << 20
MAX_DOCUMENT_BYTES = 64 << 20
_ROWS = re.compile(r"rows/([a-z_]{1,60})/[0-9]{6,12}\.copy")
# What broken, cut and foreign files make the libraries raise.
_UNREADABLE = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, orjson.JSONDecodeError)


class _Hashed:
    """A file whose bytes are counted and hashed as they pass."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, content: bytes) -> int:
        self._count(content)
        return self._file.write(content)

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self._count(content)
        return content

    def flush(self) -> None:
        self._file.flush()

    def sha256(self) -> str:
        return self._digest.hexdigest()

    def _count(self, content: bytes) -> None:
        self._digest.update(content)
        self.size += len(content)


class ArchiveWriter:
    """An archive that is being written. Without `finish` it is left cut."""

    def __init__(self, file: IO[bytes], header: dict[str, Any]) -> None:
        self._file = _Hashed(file)
        # Level 1: the rows of a long ledger are compressed as fast as they are read.
        self._gzip = gzip.GzipFile("", "wb", 1, self._file, mtime=0)
        self._tar = tarfile.open(fileobj=self._gzip, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._members: list[dict[str, Any]] = []
        self.rows: dict[str, int] = {}
        self._add(HEADER, orjson.dumps({"format": FORMAT, "version": VERSION, **header}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        # After an error, such as a full disk, what the streams still hold cannot be written either.
        for stream in (self._tar, self._gzip):
            with suppress(OSError):
                stream.close()

    def add_rows(self, table: str, chunks: Iterable[bytes]) -> None:
        """Add the rows of a table, of which no chunk ends within one."""
        waiting, number, rows = bytearray(), 0, 0
        for chunk in chunks:
            rows += chunk.count(b"\n")  # COPY escapes those within a value
            waiting += chunk
            if len(waiting) >= MEMBER_BYTES:
                number += 1
                self._add(f"rows/{table}/{number:06}.copy", bytes(waiting))
                waiting.clear()
        if waiting:
            self._add(f"rows/{table}/{number + 1:06}.copy", bytes(waiting))
        self.rows[table] = rows

    def finish(self) -> tuple[int, str]:
        """Add the manifest and return the size and the SHA-256 of the file."""
        self._add(MANIFEST, orjson.dumps({"members": self._members, "rows": self.rows}))
        self._tar.close()
        self._gzip.close()
        return self._file.size, self._file.sha256()

    def _add(self, name: str, content: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(content), 0o600
        self._tar.addfile(info, BytesIO(content))
        sha256 = hashlib.sha256(content).hexdigest()
        self._members.append({"name": name, "bytes": len(content), "sha256": sha256})


@dataclass(frozen=True)
class Rows:
    """A member with rows of a table. Its chunks must be read before the next member."""

    table: str
    chunks: Iterator[bytes]


class ArchiveReader:
    """An archive that is being read.

    `read_rows` and `finish` raise `Unacceptable` for a file that was cut or altered. What was read
    before may be used only after `finish`.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = _Hashed(file)
        self._members: list[dict[str, Any]] = []
        self._manifest: dict[str, Any] | None = None
        with _readable():
            self._gzip = gzip.GzipFile(fileobj=self._file, mode="rb")
            self._tar = tarfile.open(fileobj=self._gzip, mode="r|")  # noqa: SIM115
            first = self._tar.next()
            if first is None or first.name != HEADER:
                raise _foreign()
            self.header = self._document(first)
        if self.header.get("format") != FORMAT:
            raise _foreign()
        if self.header.get("version") != VERSION:
            raise Unacceptable(
                f"The archive has version {self.header.get('version')!r}. This release reads version"
                f" {VERSION}.",
                code="archive.version",
            )

    def read_rows(self) -> Iterator[Rows]:
        """Yield the members with rows, in their order."""
        with _readable():
            while (member := self._tar.next()) is not None:
                if member.name == MANIFEST:
                    self._manifest = self._document(member)
                    return
                named = _ROWS.fullmatch(member.name)
                if named is None or not member.isreg():
                    raise _altered(f"has the member {member.name[:80]!r}, which no archive has")
                yield Rows(named[1], self._chunks(member))

    def finish(self) -> str:
        """Compare all members with the manifest, read the file to its end and return its SHA-256."""
        with _readable():
            if self._manifest is None:
                raise EOFError
            if self._tar.next() is not None:
                raise _altered("goes on after its manifest")
            # The check of gzip is at its end, and nothing but zeros fills the last block of a tar file.
            while chunk := self._gzip.read(CHUNK_BYTES):
                if chunk.strip(b"\0"):
                    raise _altered("goes on after its manifest")
        if self._members[:-1] != self._manifest.get("members"):
            stated = self._manifest.get("members")
            known = stated if isinstance(stated, list) else []
            differing = next((each["name"] for each in self._members[:-1] if each not in known), "")
            raise _altered(f"differs from its manifest{differing and f' in {differing}'}")
        return self._file.sha256()

    def _document(self, member: tarfile.TarInfo) -> dict[str, Any]:
        if not member.isreg() or member.size > MAX_DOCUMENT_BYTES:
            raise _foreign()
        document = orjson.loads(b"".join(self._chunks(member)))
        if not isinstance(document, dict):
            raise _foreign()
        return document

    def _chunks(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        digest, size = hashlib.sha256(), 0
        content = self._tar.extractfile(member)
        assert content is not None  # noqa: S101 # a regular file
        while True:
            with _readable():
                chunk = content.read(CHUNK_BYTES)
            if not chunk:
                break
            digest.update(chunk)
            size += len(chunk)
            yield chunk
        self._members.append({"name": member.name, "bytes": size, "sha256": digest.hexdigest()})


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except DomainError:
        raise
    except _UNREADABLE as error:
        raise Unacceptable(
            f"The file is not a complete archive of a pool: {error or 'it ends too early'}. Copy it"
            " again.",
            code="archive.unreadable",
        ) from error


def _foreign() -> Unacceptable:
    return Unacceptable(
        "The file is not an archive of a pool, as manage.py export_pool writes it.",
        code="archive.unreadable",
    )


def _altered(what: str) -> Unacceptable:
    return Unacceptable(f"The archive {what}: it was altered.", code="archive.altered")
