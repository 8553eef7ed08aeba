"""What the page may do in a browser: run its own script and the pictures', and ask whom it came from."""

from __future__ import annotations

from archir.pictures.html import inline


def policy(further: str = "") -> str:
    """The content security policy. Pictures are frames without an address, which have the page's policy, too: their
    script and styles are named by their hashes. `further` stands beside the sources of scripts."""
    scripts, styles = (" ".join(f"'{one}'" for one in found) for found in inline())
    return (
        f"default-src 'none'; script-src 'self'{further} {scripts}; style-src 'self' {styles}; img-src data:; "
        "connect-src 'self'; worker-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'"
    )
