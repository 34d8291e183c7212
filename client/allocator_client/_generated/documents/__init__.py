"""Documents of requests and answers, by group.

Made from docs/openapi.yaml by client/generate.py: change those.
"""
