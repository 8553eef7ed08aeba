"""A page to write spaces on: what it asks, the server that answers on this machine, and the page itself."""
