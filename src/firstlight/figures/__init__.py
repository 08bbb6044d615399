"""Plot builders from plain arrays, in one visual language."""
