"""`./dev bundle`: everything that an installation without a network needs, in one archive."""

from devtools.bundle.making import bundle

__all__ = ["bundle"]
