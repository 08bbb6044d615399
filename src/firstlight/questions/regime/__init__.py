"""Was training lazy?"""
