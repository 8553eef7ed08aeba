"""HTML pages, their tables and charts, and fragments of HTML for notebooks."""
