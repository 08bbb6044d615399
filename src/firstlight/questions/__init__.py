"""One folder for each question a user asks: what is measured, its page, its command."""
