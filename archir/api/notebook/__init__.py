"""Notebooks and prompts: what values look like, cells that are programs, and progress.

Classes of the rooms below are shown by functions here (`archir.base.names.above`). `markup` makes tables and places for
pictures, `pages` says what of each value is shown.
"""
