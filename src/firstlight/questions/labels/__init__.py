"""Which labels look wrong?"""
