"""Link prediction in a plant's graph: logs to locations, logs to the logs they follow up."""
