"""Kubernetes, with Kueue or with resource quotas, over its own API."""
