"""Models on disk, and the data beside them."""
