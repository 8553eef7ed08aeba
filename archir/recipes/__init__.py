"""What a search is: the phases of a recipe, the choices that each opens, and the images that it works on.

A recipe names strategies and objectives; a backend has them, and trains and scores.
"""
