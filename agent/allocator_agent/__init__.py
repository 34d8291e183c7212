"""The agent: it stands beside a scheduler, feeds the service and applies what it decides."""

__version__ = "0.1.0"
