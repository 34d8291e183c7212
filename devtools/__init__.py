"""The commands of `./dev` that work on the project: checks, tests, locks, licences, bundle, site.

What runs the service is in `launcher`. Like that, it needs the standard library only.
"""
