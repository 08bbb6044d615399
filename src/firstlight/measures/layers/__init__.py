"""What each layer receives, keeps and separates."""
