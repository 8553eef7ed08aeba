"""Tables of results: what networks of a space came to, trained and timed by whoever published it."""
