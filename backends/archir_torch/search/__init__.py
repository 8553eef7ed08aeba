"""Recipe runs in torch: preparation, phases, strategy jobs, scoring of candidates, export of the resulting
networks."""
