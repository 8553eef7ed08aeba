"""Notebooks and prompts: what values look like, cells that are programs, and progress.

`registration` tells IPython how to show values. `markup` makes tables and places for
pictures, `pages` says what of each value is shown.
"""
