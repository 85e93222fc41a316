"""What makes the copy wait."""
