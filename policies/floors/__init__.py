"""Floors that guarantees and own servers give to workloads before everything else.

A problem with guarantees is solved in steps, each of which is a problem of its own:

* ``pools``: one pool for each guarantee, which gives each workload its floor;
* ``parts``: the floors as parts of workloads, the problem in which the shares of these parts rise, and
  the problem of the rest, in which they are kept;
* ``solving``: the steps in their order, and the answer that they make together.

Source: docs/policies/guarantees.md.
"""
