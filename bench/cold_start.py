"""One query in a fresh process: `lemmata search` against a script with sentence-transformers on the same texts.

    python bench/cold_start.py WORKSPACE [--repeat 5]

The script does the minimum: load all-MiniLM-L6-v2 from disk, the texts' vectors from a .npy file, encode the
query, multiply, print ten texts. Times are wall clock, the best of several; both see warm files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from lemmata.encode.load import baseline_folder
from lemmata.project import Project

QUERY = "how many standard fillings does a Young diagram have"
PEER = """
import json, sys
import numpy as np
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1])
matrix = np.load(sys.argv[2]); texts = json.load(open(sys.argv[3]))
scores = matrix @ model.encode([sys.argv[4]], normalize_embeddings=True)[0]
for row in np.argsort(-scores)[:10]: print(round(float(scores[row]), 3), texts[row][:200])
"""


def best(command: list[str], repeat: int) -> float:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True, env=environment)
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path, help="with an index")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, closing(Project(options.workspace).retriever()) as retriever:
        matrix, texts = Path(folder, "matrix.npy"), Path(folder, "texts.json")
        np.save(matrix, retriever.vectors.matrix)
        texts.write_text(json.dumps(list(retriever.corpus.contents())))
        peer = best(
            [sys.executable, "-c", PEER, str(baseline_folder()), str(matrix), str(texts), QUERY], options.repeat
        )
    lemmata = [
        sys.executable,
        "-c",
        "from lemmata.cli.main import main; main()",
        "search",
        QUERY,
        "-w",
        str(options.workspace),
    ]
    result = {"sentence_transformers_s": round(peer, 3)}
    for name in ("lexical", "dense", "hybrid"):
        ours = best([*lemmata, "--retriever", name], options.repeat)
        result |= {f"lemmata_{name}_s": round(ours, 3), f"{name}_times_faster": round(peer / ours, 1)}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
