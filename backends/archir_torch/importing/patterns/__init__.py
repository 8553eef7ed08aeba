"""What modules write out in several operators, found in torch's graph."""
