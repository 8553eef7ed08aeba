"""When two networks compute the same: canonical forms."""
