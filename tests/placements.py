"""Placements of decisions as tests state and falsify them."""

import zlib

import orjson

from allocator_service.allocation.models import PlacementDocument
from allocator_service.allocation.placement_list import PlacementList


def placed(run):
    """The placements of a run, all at once."""
    return PlacementList(run, None)[:]


def falsify(run, change):
    """Store a changed document of a run's placements. Its table must not be protected."""
    stored = PlacementDocument.objects.get(run=run)
    document = orjson.loads(zlib.decompress(stored.document))
    change(document)
    content = zlib.compress(orjson.dumps(document))
    PlacementDocument.objects.filter(run=run).update(document=content)
