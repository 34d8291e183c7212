"""Sets the project up and runs it on one machine: the servers, accounts and environments of `./dev`.

Standard library only, because it runs before anything is installed. It imports nothing of the
service, and the service imports nothing of it.
"""
