"""Webhooks, which push events to receivers in signed requests."""
