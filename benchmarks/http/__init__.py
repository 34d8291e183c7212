"""The REST interface under load, beside OpenStack Placement on the same machine."""

from benchmarks.http.comparison import measure

__all__ = ["measure"]
