"""The strategies that try, one a file."""
