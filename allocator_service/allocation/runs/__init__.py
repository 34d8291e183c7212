"""The way from a change to a decision in force, with the relay.

A job is claimed, a snapshot read, the problem solved and the decision published.
"""
