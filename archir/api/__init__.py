"""Python interface of every command, one module per task: load, analyse, search, lower, measure.

Names in the `__all__` of a module are public and available from `archir`. The command line imports the modules that a
command needs.
"""
