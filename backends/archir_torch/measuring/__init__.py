"""Networks in torch, timed."""
