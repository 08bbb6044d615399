"""Pure functions on tensors: patches, spectra, correlation."""
