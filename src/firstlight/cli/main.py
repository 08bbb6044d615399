"""The `firstlight` command."""


def main() -> None:
    """Run the command line."""
