"""What did my network learn?"""
