"""Webhooks: events, pushed to their receivers in signed requests until they are taken."""
