"""Answers about what is not so: simulations, evaluations, counterfactuals, impact of a change."""
