"""Plugins: user modules that register operations, strategies, objectives and other extensions when they are
imported.

`registry` stores what is registered, by name; `loading` imports the modules that a user names, `installed`
those of installed packages; `failures` locates an exception in a plugin's files; `bundled` imports archir's
own modules.
"""
