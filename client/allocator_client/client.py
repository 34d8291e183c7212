"""The client: every operation of the service as a method, sent with care."""

from allocator_client._generated.operations import Operations
from allocator_client.transport import Transport


class Client(Operations, Transport):
    """The allocation service at an address, asked with one API key.

    Every operation of the OpenAPI document is a method of its `operationId`. It answers with an
    `Answer` (a document and its headers), with `Rows` (a list that is fetched while it is read), or
    with a `Download`; it raises `Problem` where the service refuses and `Unreachable` where it gives
    no answer. See `Transport` for what is repeated and what is not.

    Examples
    --------
    >>> client = Client("http://localhost:8000", key)  # doctest: +SKIP
    >>> client.pools_show("lab").body["policy"]["name"]  # doctest: +SKIP
    'drfh'
    """
