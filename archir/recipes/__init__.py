"""Recipes of searches: phases, which choices each phase searches, and which data it uses.

A recipe names strategies and objectives; the backend implements them, and trains and scores.
"""
