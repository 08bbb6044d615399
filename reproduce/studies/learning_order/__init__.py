"""Principal-components bias and the order in which examples are learned."""
