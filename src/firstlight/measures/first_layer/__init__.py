"""What the first layer learned: its energy along the principal components of the patches."""
