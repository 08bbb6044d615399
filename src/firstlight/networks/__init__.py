"""Networks that were trained once, with their history: what the bank holds, how it is made, and how to load it."""
