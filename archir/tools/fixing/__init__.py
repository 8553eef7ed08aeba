"""Automatic fixes for `.arch` programs: candidate edits per kind of error, accepted only if the checker finds fewer
errors."""
