"""Reading what happens inside a model: layers, hooks, outputs, gradients. Private; the measures are public."""
