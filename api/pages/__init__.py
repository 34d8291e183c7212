"""The tenants' pages: what the API tells a tenant's key, for people with a browser.

Pages see what the API's documents hold and nothing more: they read through the selectors and writers of
`api.v1` with the tenant's scope. Nothing imports them but the routes.
"""
