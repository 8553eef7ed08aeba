"""Recipe runs in torch: preparation, phases, jobs of strategies, scoring of candidates, deployment of results."""
