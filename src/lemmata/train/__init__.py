"""From mined data to an adapted encoder: pretraining, fine-tuning, averaging, and what is told about the result."""
