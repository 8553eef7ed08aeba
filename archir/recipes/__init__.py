"""Searches as recipes: phases, the choices that each phase searches, and the data it uses.

A recipe names strategies and objectives; the backend implements them, trains and scores.
"""
