"""Lists of calls, as other backends read them from files, followed by torch."""
