"""Entry point of the drakit command."""
