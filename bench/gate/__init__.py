"""The gate: what two versions of lemmata read, find and cost, compared through the command line alone.

Nothing here imports lemmata, and the measures are computed from TREC runs, so that both versions are judged alike.
"""
