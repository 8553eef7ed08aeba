"""The best architectures under bounds on sums of costs, exactly, with a proof."""
