"""A typed client of the allocation service.

>>> from allocator_client import Client
>>> with Client("https://allocator.example.org", key) as client:  # doctest: +SKIP
...     for row in client.pools_allocations_list("lab"):
...         print(row["workload"]["name"], row["tasks"])
"""

from allocator_client.answers import Answer, Download, Page, Rows
from allocator_client.client import Client
from allocator_client.errors import (
    AllocatorError,
    Changed,
    Mistake,
    NotTheService,
    Problem,
    Unreachable,
)

__all__ = [
    "AllocatorError",
    "Answer",
    "Changed",
    "Client",
    "Download",
    "Mistake",
    "NotTheService",
    "Page",
    "Problem",
    "Rows",
    "Unreachable",
]
