"""What the library has blocks for."""
