"""Stages of documents: words, boxes, labels, images; then windows of tokens."""
