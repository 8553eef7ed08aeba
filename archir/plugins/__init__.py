"""The one door for what people bring: modules that are named register operations, strategies, objectives and others.

`registry` keeps what is registered by name, `loading` imports the modules that are named, `installed` those of
installed packages, `failing` says where a plugin failed, and `bundled` imports archir's own.
"""
