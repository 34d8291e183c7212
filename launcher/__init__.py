"""Set-up and operation of the project on one machine, with the servers and environments of `./dev`.

Standard library only, because it runs before anything is installed. It imports nothing of the
service, and the service imports nothing of it.
"""
