"""From a network to a space that it is the largest architecture of, by an edit of its text."""
