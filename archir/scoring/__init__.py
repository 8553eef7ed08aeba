"""Scores that add up over what is chosen, from searches, trials, costs and proxies: what an exact optimiser takes."""
