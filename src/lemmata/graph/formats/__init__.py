"""Graph files: GraphML, triples, Neo4j import tables, JSON and the raw layout of OGB.

Every format reads back what it writes. Files of other tools are read by the names they commonly use: a node
with a name becomes a concept, any other only a node. Knows nothing of a corpus.
"""
