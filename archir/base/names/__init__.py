"""Names, and where what they name is: modules that have moved, methods whose bodies stand in rooms above, arrays."""
