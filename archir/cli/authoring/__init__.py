"""The commands for who writes programs: layout, editors, explanations, installation."""
