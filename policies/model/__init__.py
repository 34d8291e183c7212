"""The question, the answer, and what both are made of: problems, policies, allocations, schedules."""
