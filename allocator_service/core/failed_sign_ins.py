"""django-axes under a name that describes the contents of its tables."""

from axes.apps import AppConfig


class FailedSignInsConfig(AppConfig):  # type: ignore[misc] # axes has no types
    verbose_name = "Sign-ins"
