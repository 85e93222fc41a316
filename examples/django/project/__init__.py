"""The settings of the example."""
