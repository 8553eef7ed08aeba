"""`python -m archir`."""

from archir.cli import main

if __name__ == "__main__":
    main()
