"""From a change to a decision in force: claim, snapshot, solve, publish; and the relay."""
