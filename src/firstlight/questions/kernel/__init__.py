"""What does a kernel that learns features see?"""
