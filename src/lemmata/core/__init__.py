"""What everything stands on: records, errors, files, settings, the workspace and its artefacts."""
