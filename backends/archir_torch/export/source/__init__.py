"""Networks as Python source that imports torch alone."""
