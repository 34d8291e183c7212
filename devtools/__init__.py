"""Commands of `./dev` for work on the project, such as checks, tests, locks and the bundle.

The commands that run the service are in `launcher`. Both packages need only the standard library.
"""
