"""What is timed, and how: Python, NumPy and one framework are all it needs."""
