"""Vectors on disk: made, stored, and searched exactly, by HNSW or in Milvus."""
