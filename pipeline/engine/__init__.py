"""Engines that run partitions."""
