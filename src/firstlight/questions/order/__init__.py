"""Which examples are learned first?"""
