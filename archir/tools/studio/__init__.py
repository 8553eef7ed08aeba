"""The studio: a web page for writing search spaces, its local HTTP server, and the answers to its requests."""
