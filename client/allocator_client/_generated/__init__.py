"""Operations and documents of the service.

Made from docs/openapi.yaml by client/generate.py: change those.
"""
