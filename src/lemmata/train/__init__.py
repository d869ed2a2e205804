"""From mined data to an adapted encoder: pretraining, fine-tuning, averaging, cards and reports."""
