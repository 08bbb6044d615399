"""Files from package registries and from archives, checked before anything in them is read."""
