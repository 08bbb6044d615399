"""Whether a layer's filters point where the network's gradients point."""
