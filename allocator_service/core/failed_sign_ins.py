"""django-axes under a name that describes the contents of its tables."""

from axes.apps import AppConfig


class FailedSignInsConfig(AppConfig):
    verbose_name = "Sign-ins"
