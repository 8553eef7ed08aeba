"""What is known of a space without building any of its architectures."""
