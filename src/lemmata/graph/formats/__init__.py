"""Graph files: GraphML, JSON lines, JSON in the shape of Math-Embed and the raw layout of OGB.

What is written is read back without loss. Files of other tools are read by the names they commonly use: a node
with a name becomes a concept, any other only a node. Knows nothing of a corpus.
"""
