"""Model files of others, as networks of archir's."""
