"""Verbs over several verbs: what is mined and what is asked becomes a training job, a run, a table before and after."""
