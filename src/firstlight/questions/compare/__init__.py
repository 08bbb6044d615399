"""What changed between these networks?"""
