"""Notebook support: HTML displays of archir's values, and the `%%arch` cell magic.

`registration` registers the displays with IPython, `html_pages` creates the HTML for each class, and `cells` defines
the magic.
"""
