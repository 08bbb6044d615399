"""One folder for each question that a user asks: what is measured, its page, its command."""
