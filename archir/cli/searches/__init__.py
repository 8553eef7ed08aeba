"""The commands that search and train."""
