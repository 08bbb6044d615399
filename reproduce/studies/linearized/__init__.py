"""Networks against their linearisation."""
