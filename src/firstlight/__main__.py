"""`python -m firstlight`: the command line, for environments whose scripts are not on the path."""

from firstlight.cli.main import main

if __name__ == "__main__":
    main()
