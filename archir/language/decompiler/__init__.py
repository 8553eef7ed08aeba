"""Networks that were made elsewhere, written as programs."""
