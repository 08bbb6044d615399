"""Would my architecture copy or memorise?"""
