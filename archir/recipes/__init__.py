"""Recipes of searches: the phases, the choices that each phase searches, and the data that it uses.

A recipe names strategies and objectives. The backend implements them: it trains networks and scores architectures.
"""
