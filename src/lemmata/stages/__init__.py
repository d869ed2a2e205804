"""The verbs of a workspace: each is a function (layout, options, progress) -> report."""
