"""Reader of HTTP/1.1 requests that rejects ambiguous framing.

If a proxy and a server disagree about where a request ends, one client's bytes can become another
client's request. RFC 9112 lets a recipient reject such requests (sections 2.3, 3.2, 5.2, 6.1 and 6.3),
whereas waitress picks one of the possible meanings.
"""

from typing import Any

from waitress.parser import HTTPRequestParser, ParsingError
from waitress.receiver import ChunkedReceiver
from waitress.utilities import BadRequest

from allocator_service.web.limits import LARGEST_CHUNK_HEADER, LARGEST_TRAILER

_LENGTH_DIGITS = 18
_VERSIONS = (b" HTTP/1.1", b" HTTP/1.0")


class BoundedChunks(ChunkedReceiver):
    """Reader of a chunked body whose chunk headers and trailers are bounded.

    The base class joins an unfinished line with each packet, which takes time quadratic in its length.
    """

    def received(self, data: bytes) -> int:
        """Consume a packet and return the number of bytes consumed."""
        consumed: int = super().received(data)
        if len(self.control_line) > LARGEST_CHUNK_HEADER:
            self.error = BadRequest("the line before a chunk is too long")
        elif len(self.trailer) > LARGEST_TRAILER:
            self.error = BadRequest("the trailers are too long")
        return consumed


class StrictParser(HTTPRequestParser):
    """Parser of one request that rejects ambiguous framing."""

    body_rcv: Any

    def parse_header(self, header_plus: bytes) -> None:
        """Read the request line and the fields.

        Raises `ParsingError` if their meaning is ambiguous.
        """
        _check_lines(header_plus)
        try:
            super().parse_header(header_plus)
        except ValueError as error:
            # From `urlsplit`. Without this the connection would close without an answer.
            raise ParsingError("the request target is not a URI") from error
        if self.body_rcv is None or self.content_length >= self.adj.max_request_body_size:
            # RFC 9110, 10.1.1: a request without a body has nothing to wait for, and one rejected by
            # its header gets its final status at once. The base class would answer 100 and wait.
            self.expect_continue = False
        elif self.chunked:
            self.body_rcv = BoundedChunks(self.body_rcv.getbuf())


def _check_lines(header_plus: bytes) -> None:
    request_line, *lines = header_plus.rstrip(b"\r\n").split(b"\r\n")
    if not request_line.endswith(_VERSIONS):
        raise ParsingError("expected HTTP/1.1 or HTTP/1.0 in the request line")
    fields: dict[bytes, list[bytes]] = {}
    for line in lines:
        if line.startswith((b" ", b"\t")):
            raise ParsingError("a field must not be folded over several lines")
        name, _, value = line.partition(b":")
        fields.setdefault(name.lower(), []).append(value.strip(b" \t"))
    _check_framing(fields, is_first_version=request_line.endswith(b" HTTP/1.0"))


def _check_framing(fields: dict[bytes, list[bytes]], *, is_first_version: bool) -> None:
    if len(fields.get(b"host", ())) != 1 and not (is_first_version and b"host" not in fields):
        raise ParsingError("expected exactly one Host field")
    codings = fields.get(b"transfer-encoding")
    lengths = fields.get(b"content-length")
    if codings is not None:
        if is_first_version:
            raise ParsingError("HTTP/1.0 has no Transfer-Encoding")
        if lengths is not None:
            raise ParsingError("expected either Content-Length or Transfer-Encoding, got both")
        if [coding.lower() for coding in codings] != [b"chunked"]:
            raise ParsingError("expected the transfer coding chunked, once")
    if lengths is not None and (len(lengths) > 1 or len(lengths[0]) > _LENGTH_DIGITS):
        raise ParsingError("expected one Content-Length of at most 18 digits")


def is_unfinished(parser: Any) -> bool:
    """Return whether a request has begun to arrive and is not complete."""
    return parser is not None and not parser.completed
