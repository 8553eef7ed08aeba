"""Names: which a body has, what those may mean that mean nothing."""
