"""`./dev bundle`: everything that an installation without a network needs, in one archive."""

from launcher.bundle.making import bundle

__all__ = ["bundle"]
