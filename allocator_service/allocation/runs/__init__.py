"""Runs and the relay, from a change to a decision in force.

A job is claimed, a snapshot read, the problem solved and the decision published.
"""
