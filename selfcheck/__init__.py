"""Measurements of the benchmark itself: does it say what is true, and at what cost?"""
