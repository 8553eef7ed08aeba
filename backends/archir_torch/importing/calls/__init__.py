"""Import of networks given as lists of operator calls, which other backends read from files.

torch runs the calls as a module, which is then imported like any torch module.
"""
