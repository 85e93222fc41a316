"""A batch: one migration after another, or several side by side, for many tables.

Tables that must change at one moment are one migration instead.
"""
