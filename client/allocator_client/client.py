"""The client, with a method for every operation of the service."""

from allocator_client._generated.operations import Operations
from allocator_client.transport import Transport


class Client(Operations, Transport):
    """Client of the allocation service at an address, with one API key.

    Every operation of the OpenAPI document is a method with the name of its `operationId`. It returns an
    `Answer` (a document and its headers), `Rows` (a list that is fetched while it is read) or a
    `Download`. It raises `Problem` if the service refuses the request, and `Unreachable` if there is no
    response. `Transport` describes which requests are retried.

    Examples
    --------
    >>> client = Client("http://localhost:8000", key)  # doctest: +SKIP
    >>> client.pools_show("lab").body["policy"]["name"]  # doctest: +SKIP
    'drfh'
    """
