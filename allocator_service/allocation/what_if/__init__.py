"""Simulations, evaluations, counterfactuals and the impact of a change."""
