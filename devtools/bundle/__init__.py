"""`./dev bundle`, an archive with everything for an installation without a network."""

from devtools.bundle.making import bundle

__all__ = ["bundle"]
