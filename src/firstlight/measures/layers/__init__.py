"""What each layer receives and keeps."""
