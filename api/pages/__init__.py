"""Pages for tenants with a browser, which show what the API answers to a tenant's key.

Pages see what the API's documents hold and nothing more: they read through the selectors and writers of
`api.v1` with the tenant's scope. Nothing imports them but the routes.
"""
