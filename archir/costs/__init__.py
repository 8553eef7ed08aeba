"""What architectures cost, without building them."""
