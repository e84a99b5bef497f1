"""Recipes that come with the program, each one YAML file (``pipeline.train.recipe``)."""
