"""What programs that write spaces ask: small structured answers, and nothing outside of the folders that are theirs."""
