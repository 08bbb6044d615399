"""One file per data set; the registry finds it here."""
