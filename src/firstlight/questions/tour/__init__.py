"""A short tour of everything: small networks on real images, measured part by part within minutes."""
