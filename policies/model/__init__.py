"""Data model of the library.

Problems and requests are its input. Policies, allocations, schedules, certificates and histories
describe how a problem is solved and what the solution is.
"""
