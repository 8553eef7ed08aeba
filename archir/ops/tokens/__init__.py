"""What networks that read tokens are made of, beside attention: lookups, positions, experts that tokens choose."""
