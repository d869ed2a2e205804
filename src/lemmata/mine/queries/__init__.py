"""Questions for passages, by rules or by a model, and the filter that keeps those which find their passage again."""
