"""Functions of networks that people bring: import, open, shrink."""
