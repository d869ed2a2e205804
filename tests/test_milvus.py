"""Vectors in Milvus: the contract of every index, and what the user sees of it."""

from __future__ import annotations

import pytest

pytest.importorskip("pymilvus", reason="needs pymilvus: pip install 'lemmata[scale]'")
pytest.importorskip("milvus_lite", reason="needs milvus-lite: pip install 'lemmata[scale]'")
