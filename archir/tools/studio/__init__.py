"""The studio: a web page for writing search spaces, its HTTP server on this machine, and the answers to its
requests."""
