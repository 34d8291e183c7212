"""What is sent and answered, by group.

Made from docs/openapi.yaml by client/generate.py: change those.
"""
