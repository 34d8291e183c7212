"""django-axes under a name that says what its tables hold."""

from axes.apps import AppConfig


class FailedSignInsConfig(AppConfig):  # type: ignore[misc] # axes has no types
    verbose_name = "Sign-ins"
