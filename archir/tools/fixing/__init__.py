"""Mistakes mended: candidates for each kind of mistake, and the checker as the judge of all."""
