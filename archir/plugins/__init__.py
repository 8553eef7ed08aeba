"""Plugins: user modules that register operations, strategies, objectives and other extensions when imported.

`registry` stores the extensions by name; `loading` imports the modules that a user names, and locates exceptions in a
plugin's files; `installed` imports the plugins of installed packages; `libraries` finds `.arch` files of plugins.
"""
