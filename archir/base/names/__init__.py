"""Names, and where what they name is: methods whose bodies stand in rooms above, arrays."""
