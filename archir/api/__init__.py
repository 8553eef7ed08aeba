"""Python interface of every command, one module per task: load, analyse, search, lower, measure.

Names in a module's `__all__` are public and can be imported from `archir`. The command line imports only the modules
that a command needs.
"""
