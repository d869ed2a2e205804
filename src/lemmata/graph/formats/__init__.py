"""Graphs from files and to files: GraphML, triples, Neo4j's import tables, JSON, OGB's raw layout.

What is written here is read back the same. Graphs of others are read by their usual names for things:
a node with a name becomes a concept, any other only a node. Does not know which nodes a corpus has.
"""
