"""Runs `python -m eventlib`: the command line, where its script is not on the path."""

from eventlib.cli import main

if __name__ == "__main__":
    main()
