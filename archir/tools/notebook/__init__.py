"""Notebook support: HTML displays of archir's values, and `%%arch` cells.

`registration` registers the displays with IPython, `html_pages` makes the HTML of each class, `cells` defines the
magic.
"""
