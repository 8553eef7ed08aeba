"""What every architecture of a space costs, without building any: tables of what few choices decide together."""
