"""How much of the first layer is the implicit bias of gradient descent?"""
