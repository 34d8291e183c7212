"""The agent beside a scheduler, which reports demand and use to the service and applies decisions."""

__version__ = "0.1.0"
