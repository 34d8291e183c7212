"""Whether a change of the code changes answers: every policy and mode on stored random problems.

``python -m tests.differential record FILE`` writes what this copy of the code answers;
``python -m tests.differential compare FILE`` asks again and tells of every answer that differs.
Answers depend on the machine's arithmetic in the last bit, so both run on the same machine.
"""
