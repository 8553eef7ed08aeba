"""What tells a strategy where to look: encodings of architectures, and models of their scores."""
