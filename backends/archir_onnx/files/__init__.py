"""Model files, and external data next to them."""
