"""Models of a workspace: trained, judged, prepared, killed and resumed, through the library and the command line."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.make import check_for_the_hub, killed_at, refused, say
from tests.small_bert import sayings
from tests.training import QUICK, Stopped, say_more, times, write_notes

from lemmata.core.artefacts import write_hashed_manifest
from lemmata.core.errors import ConfigError, InputError, LeakageError, LemmataError, WorkspaceError
from lemmata.core.workspace import read_manifest
from lemmata.corpus.split import open_split
from lemmata.corpus.training_files import read_training
from lemmata.encode.export import export_encoder
from lemmata.encode.load import load_encoder
from lemmata.project import Project
from lemmata.train.job import open_job
from lemmata.vectors.store import open_vectors

sentence_transformers = pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def mined(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a set of pairs and a table [finetune.tuned]; tests work on copies of it."""
    folder = tmp_path_factory.mktemp("mined")
    project = Project.init(folder / "notes")
    project.ingest([write_notes(folder / "notes.jsonl")])
    project.split(settings={"method": "stratified", "validation": 0.2, "test": 0.2})
    project.mine("pairs")
    say_more(folder / "notes", f"[finetune.tuned]{QUICK.format(base=base)}")
    return folder / "notes"


@pytest.fixture(scope="module")
def trained(mined: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with the model `tuned`."""
    folder = shutil.copytree(mined, tmp_path_factory.mktemp("trained") / "notes")
    Project(folder).finetune()
    return folder


@pytest.fixture
def copied(mined: Path, tmp_path: Path) -> Path:
    return shutil.copytree(mined, tmp_path / "notes")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---------------------------------------------------------------- a whole model


def test_a_model_has_card_report_and_export(trained: Path, base: Path) -> None:
    project = Project(trained)
    assert names(project.models_folder) == ["tuned"]
    folder = project.model("tuned")
    assert {"README.md", "card.json", "report.html", "history.json", "manifest.json", "onnx"} <= set(names(folder))
    assert names(folder / "onnx") == ["encoder.json", "model.onnx", "tokenizer.json"]
    assert list(project.models()) == ["tuned"]
    report = project.models()["tuned"]["report"]
    assert report["before"]["references/MRR@10"] < 0.2 < 0.7 < report["after"]["references/MRR@10"]
    assert report["precision"] == "int8"
    assert report["drift"]["mean_cosine"] > 0.99
    card = json.loads((folder / "card.json").read_text())
    assert card["base_sha256"] == hashlib.sha256((base / "model.safetensors").read_bytes()).hexdigest()
    assert (card["licence"], card["languages"]) == ("mit", ["de", "en"])  # of its base
    assert card["split"]["method"] == "stratified"
    assert card["measures"][0]["after"]["value"] == report["after"]["references/MRR@10"]
    texts = ["a1 a2 a3", "b1 b2 b3", "b4 b5 b6"]
    plain = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    vectors = plain.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    exported = load_encoder("tuned", models=project.models_folder)
    assert exported.name.startswith("tuned-int8-")
    np.testing.assert_allclose(exported.encode(texts), vectors, atol=0.02)


def test_a_damaged_model_is_found_and_training_it_again_helps(trained: Path, tmp_path: Path) -> None:
    project = Project(shutil.copytree(trained, tmp_path / "notes"))
    assert project.verify().is_whole
    assert not project.info()["problems"]
    cure = "train it again with 'lemmata train finetune tuned'"
    weights = project.model("tuned") / "onnx" / "model.onnx"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1  # where only the checksum of the whole file shows it
    weights.write_bytes(content)
    [problem] = project.verify().damage
    assert problem.sentence == f"{weights} is damaged (its checksum is wrong): {cure}"
    weights.unlink()
    assert project.info()["problems"] == [f"{weights} is missing: {cure}"]
    assert "done_before" not in project.finetune()
    assert project.verify().is_whole
    assert project.finetune()["done_before"]


def test_a_model_with_a_damaged_manifest_is_not_passed_over(trained: Path, tmp_path: Path) -> None:
    project = Project(shutil.copytree(trained, tmp_path / "notes"))
    path = project.manifest(project.model("tuned"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    code, out, error = say("train", "models", "-w", project.root)
    assert code == 1
    assert "no models yet" not in out
    said = " ".join(error.split())
    assert "manifest.json is damaged" in said
    assert "train it again with 'lemmata train finetune tuned' (or 'lemmata train pretrain tuned')" in said
    assert [problem.path for problem in project.verify().damage] == [path]
    path.write_bytes(whole)
    assert "finetune   yes" in say("train", "models", "-w", project.root)[1]


def test_prompts_go_from_the_settings_into_card_and_search(copied: Path) -> None:
    project = say_more(copied, '[finetune.tuned.prompts]\nquery = "ask "')
    project.finetune()
    folder = project.model("tuned")
    assert json.loads((folder / "card.json").read_text())["prompts"] == {"query": "ask "}
    exported = load_encoder("tuned", models=project.models_folder)
    np.testing.assert_allclose(exported.encode(["a1 a2"], role="query"), exported.encode(["ask a1 a2"]), atol=1e-6)
    assert not np.allclose(exported.encode(["a1 a2"], role="query"), exported.encode(["a1 a2"]), atol=1e-3)


def test_the_same_call_does_nothing_and_says_so(trained: Path) -> None:
    before = times(trained)
    (trained / "models" / ".tuned" / "work").mkdir(parents=True)  # a kill between the last two acts leaves this
    report = Project(trained).finetune()
    assert report.pop("done_before")
    assert report == Project(trained).models()["tuned"]["report"]
    code, out, _ = say("train", "finetune", "-w", trained)
    assert code == 0
    assert "done before         yes" in out
    assert times(trained) == before
    assert names(trained / "models") == ["tuned"]
    assert json.loads(say("train", "finetune", "tuned", "-w", trained, "--json")[1])["done_before"]
    assert "finetune   yes" in say("train", "models", "-w", trained)[1]


def test_changed_inputs_train_again(copied: Path, base: Path) -> None:
    config = copied / "lemmata.toml"
    config.write_text(f"[finetune.tuned]{QUICK.format(base=base)}".replace("sets", "#"), encoding="utf-8")
    project = Project(copied)
    table: dict[str, Any] = {"epochs": 0.3}  # and all sets
    assert "done_before" not in project.finetune(settings=table)
    assert not begins(project, **table)
    assert begins(project, **{**table, "rate": 1e-3})
    passages = [record["positive_id"] for record in _records(project, "pairs")]
    written = copied / "asked.jsonl"
    written.write_text(json.dumps({"passage": passages[0], "query": "a1 a2"}), encoding="utf-8")
    project.import_queries(written, name="asked")
    assert begins(project, **table)
    table["sets"] = {"asked:written": 1.0, "pairs": 1.0}
    project.finetune(settings=table)
    assert not begins(project, **table)
    assert list(project.models()["tuned"]["sets"]) == ["asked:written", "pairs"]
    written.write_text(json.dumps({"passage": passages[1], "query": "a3"}), encoding="utf-8")
    project.import_queries(written, name="asked")
    assert begins(project, **table)


def stop(*_: Any) -> None:
    raise Stopped


def begins(project: Project, **settings: Any) -> bool:
    """Whether the model is made, not found; it is stopped at its first act."""
    try:
        with project.reporting_to(stop):
            assert project.finetune(settings=settings)["done_before"]
    except Stopped:
        return True
    return False


def _records(project: Project, name: str) -> list[dict[str, Any]]:
    from lemmata.corpus.training_files import read_training

    return list(read_training(project.training_file(name)))


def test_a_workspace_searches_with_its_model_wherever_it_lies(trained: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(trained, tmp_path / "here")
    code, out, _ = say("index", "--encoder", "tuned", "-w", folder, "--json")
    assert (code, json.loads(out)["encoded"]) == (0, 300)
    moved = folder.rename(tmp_path / "there")
    asked, told = sayings(5, 100)[2]
    code, out, _ = say("search", asked, "-w", moved, "-k", "5", "--retriever", "dense", "--json")
    hits = {hit["id"]: hit["text"] for hit in json.loads(out)}
    assert code == 0
    assert hits["b0-2"] == told
    assert Project(moved).info()["models"][0] == "tuned"


def test_vectors_of_a_model_are_not_taken_for_those_of_its_successor(trained: Path, tmp_path: Path) -> None:
    project = Project(shutil.copytree(trained, tmp_path / "notes"))
    project.index(settings={"encoder": "tuned"})
    project.finetune(settings={"epochs": 0.3})
    retriever = project.retriever()
    with pytest.raises(WorkspaceError, match="lemmata index"):
        retriever.search("a1 a2 a3", retriever="dense")
    retriever.close()
    assert project.index(settings={"encoder": "tuned"})["encoded"] == 300
    corpus = project.corpus
    fresh = load_encoder("tuned", models=project.models_folder).encode(list(corpus.contents()))
    corpus.close()
    np.testing.assert_allclose(open_vectors(project).matrix, fresh, atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # of torch's exporter
def test_what_is_no_bert_of_ours_is_exported_by_torch(copied: Path, base: Path, tmp_path: Path) -> None:
    other = shutil.copytree(base, tmp_path / "other")
    (other / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 32, "pooling_mode": "max"}')
    project = Project(copied)
    report = project.finetune(settings={"base": str(other), "epochs": 1})
    assert report["precision"] == "fp32"
    assert report["drift"]["least_cosine"] > 0.9999
    assert project.index(settings={"encoder": "tuned"})["encoder"].startswith("tuned-fp32-")


# ---------------------------------------------------------------- killed


def test_a_killed_training_resumes_and_ends_with_one_complete_model(copied: Path, base: Path) -> None:
    long = QUICK.format(base=base).replace("epochs = 4", "epochs = 16")
    project = say_more(copied, f"[finetune.long]{long}")
    work = project.model(".long")
    killed_at("training", 20, lambda progress: Project(copied, progress).finetune("long"))
    assert project.models() == {}
    assert names(project.models_folder) == [".long"]
    last = max(int(one.name.split("-")[1]) for one in work.glob("work/checkpoint-*"))
    (work / "out" / ".onnx-left").mkdir(parents=True)  # as if an export had been killed as well
    code, out, _ = say("train", "finetune", "long", "-w", copied, "--json")
    assert code == 0
    told = json.loads(out)
    assert told["after"]["references/MRR@10"] > 0.7
    assert names(project.models_folder) == ["long"]
    folder = project.model("long")
    assert ".onnx-left" not in names(folder)
    history = json.loads((folder / "history.json").read_text())
    steps = [step for step, _ in history["losses"]]
    assert steps == sorted(set(steps))
    assert steps[0] < last < 40 < steps[-1]  # one curve over both halves
    assert Project(copied).finetune("long")["done_before"]


# ---------------------------------------------------------------- several stages


def test_a_second_stage_begins_where_the_first_ended(copied: Path, base: Path) -> None:
    first = QUICK.format(base=base).replace("pairs", "hard") + 'loss = "triplet"\n'
    second = QUICK.format(base="first").replace("epochs = 4", "epochs = 1")
    project = say_more(copied, f"[finetune.first]{first}\n[finetune.second]{second}")
    with pytest.raises(ConfigError, match="'first'"):
        project.finetune("second")
    project.index(settings={"encoder": "hashing"})
    project.mine("negatives", of="pairs", name="hard", settings={"negatives": {"number": 1}})
    before = project.finetune("first")
    after = project.finetune("second")
    assert before["after"]["references/MRR@10"] > before["before"]["references/MRR@10"] + 0.05
    assert after["before"]["references/MRR@10"] == pytest.approx(before["after"]["references/MRR@10"], abs=1e-6)
    weights = (project.model("first") / "model.safetensors").read_bytes()
    assert project.models()["second"]["base_sha256"] == hashlib.sha256(weights).hexdigest()
    assert names(project.models_folder) == ["first", "second"]
    assert project.finetune("second")["done_before"]


def test_an_exported_model_is_a_base_and_leaves_nothing_behind(copied: Path, base: Path, tmp_path: Path) -> None:
    corpus = Project(copied).corpus
    texts = list(corpus.contents())
    corpus.close()
    pieces = _with_word_pieces(base, tmp_path / "pieces")
    export_encoder(pieces, copied / "exported", "fp32", texts=texts)
    project = Project(copied)
    table = {"base": "exported", "epochs": 1}  # looked for from the workspace on
    assert project.finetune(settings=table)["after"]["references/MRR@10"] > 0.05
    assert project.finetune(settings=table)["done_before"]
    assert names(project.models_folder) == ["tuned"]
    project.prepare("tuned", tmp_path / "job", settings=table)
    assert names(project.models_folder) == ["tuned"]


def _with_word_pieces(base: Path, folder: Path) -> Path:
    """The base with a tokenizer as BERT has it, which is what can be unpacked again."""
    shutil.copytree(base, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    tokenizer["model"] = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": vocabulary,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


# ---------------------------------------------------------------- pretraining and its judge

PRETRAIN = """
[pretrain.adapted]
base = "{base}"
judge = "tuned"
rate = {rate}
batch = 16
epochs = {epochs}
"""


def test_pretraining_that_does_no_harm_is_kept_and_is_a_base(copied: Path, base: Path) -> None:
    project = say_more(copied, PRETRAIN.format(base=base, rate=1e-9, epochs=1))
    code, out, _ = say("train", "pretrain", "adapted", "-w", copied)
    assert code == 0
    assert "kept        yes" in out
    assert "pretrained" in out
    manifest = project.models()["adapted"]
    gate = manifest["report"]["gate"]
    assert gate["pretrained"]["domain"] >= gate["base"]["domain"] > 0.5
    assert gate["base"]["after"]["references/MRR@10"] == gate["base"]["domain"]
    assert names(project.models_folder) == ["adapted"]
    report = project.finetune(settings={"base": "adapted", "epochs": 0.3})
    assert report["before"] == pytest.approx(gate["pretrained"]["before"], abs=1e-6)
    code, out, _ = say("train", "pretrain", "adapted", "-w", copied)
    assert "done before" in out
    project.split(settings={"method": "stratified", "validation": 0.2, "test": 0.2, "seed": 5})
    project.mine("pairs")
    with project.reporting_to(stop), pytest.raises(Stopped):  # it begins again: the model has read what is held out
        project.pretrain("adapted")


def test_pretraining_that_wrecks_the_model_is_refused(copied: Path, base: Path) -> None:
    project = say_more(copied, PRETRAIN.format(base=base, rate=3.0, epochs=4))
    code, out, _ = say("train", "pretrain", "adapted", "-w", copied)
    assert code == 0
    assert "kept        no" in out
    manifest = project.models()["adapted"]
    gate = manifest["report"]["gate"]
    assert not manifest["report"]["kept"]
    assert gate["pretrained"]["domain"] < gate["base"]["domain"]
    assert names(project.model("adapted")) == ["manifest.json"]
    assert names(project.models_folder) == ["adapted"]
    assert project.pretrain("adapted")["done_before"]
    assert " pretrain no" in " ".join(say("train", "models", "-w", copied)[1].split())
    told = refused(say("train", "finetune", "-o", "base=adapted", "-w", copied))
    assert told == "lemmata: the model 'adapted' was not kept: fine-tuned, it did worse on validation than its base"
    assert "the model 'adapted' was not kept" in refused(say("index", "--encoder", "adapted", "-w", copied))


def test_a_judge_that_cannot_judge_is_an_error_before_anything_is_trained(copied: Path, base: Path) -> None:
    project = say_more(
        copied,
        PRETRAIN.format(base=base, rate=1e-3, epochs=1)
        + f'[pretrain.other]\nbase = "{base}"\njudge = "blind"\n[finetune.blind]\n[pretrain.lost]\njudge = "nobody"\n',
    )
    with pytest.raises(ConfigError, match="validation"):
        project.pretrain("other")
    with pytest.raises(ConfigError, match=r"finetune\.nobody"):
        project.pretrain("lost")
    shutil.rmtree(project.training("pairs"))
    with pytest.raises(WorkspaceError, match="'pairs'"):
        project.pretrain("adapted")
    assert not (project.model(".adapted") / "work").exists()


# ---------------------------------------------------------------- the split that a set and a model saw

AGAIN = {"method": "stratified", "validation": 0.2, "test": 0.2}


def held_out_now(project: Project, file: Path) -> set[str]:
    """Ids that a training file names and the present split does not train on."""
    corpus = project.corpus
    ids = np.array(corpus.ids())
    training = set(ids[open_split(project, corpus.digest).rows("train")].tolist())
    corpus.close()
    named = {name for line in read_training(file) for name in (line["anchor_id"], line["positive_id"]) if name}
    return named - training


def test_a_set_of_another_split_is_not_trained_on(copied: Path, base: Path, tmp_path: Path) -> None:
    project = Project(copied)
    file = project.training_file("pairs")
    assert not held_out_now(project, file)
    project.split(settings={**AGAIN, "seed": 5})
    count = len(held_out_now(project, file))
    assert count > 20
    sentence = (
        f"lemmata: the training set 'pairs' of {copied} was mined under another split and holds {count} passages"
        " outside the training part: mine it again with 'lemmata mine pairs --name pairs'"
    )
    assert refused(say("train", "finetune", "-w", copied)) == sentence
    assert refused(say("train", "prepare", "tuned", tmp_path / "job", "-w", copied)) == sentence
    assert not (tmp_path / "job").exists()
    say_more(copied, f'[pretrain.read]\nbase = "{base}"\njudge = "tuned"\nepochs = 1.0\n[mixtures.all]\n')
    assert refused(say("train", "pretrain", "read", "-w", copied)) == sentence
    assert refused(say("mine", "mix", "all", "-w", copied)) == sentence
    assert refused(say("mine", "export", "pairs", tmp_path / "out.parquet", "-w", copied)) == sentence
    assert "lemmata: the training set 'pairs' holds held-out data" in refused(say("audit", "-w", copied))
    assert Project(copied).mine("pairs")["replaced"]
    assert say("train", "prepare", "tuned", tmp_path / "job", "-w", copied)[0] == 0


def test_a_file_with_held_out_passages_is_not_trained_on_whatever_its_manifest_says(copied: Path) -> None:
    project = Project(copied)
    file = project.training_file("pairs")
    before = file.read_bytes()
    project.split(settings={**AGAIN, "seed": 5})
    project.mine("pairs")
    file.write_bytes(before)
    write_hashed_manifest(file.parent, read_manifest(project.manifest(file.parent)) or {})
    count = len(held_out_now(project, file))
    with pytest.raises(LeakageError, match=f"'pairs' .*{count} passages"):
        project.finetune()


def test_test_queries_that_audit_names_later_are_looked_for_before_training(trained: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(trained, tmp_path / "notes")
    project = Project(folder)
    record = next(iter(read_training(project.training_file("pairs"))))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "something else"}), encoding="utf-8")
    corpus = project.corpus
    held_out = corpus.ids()[int(open_split(project, corpus.digest).rows("test").nonzero()[0][0])]
    corpus.close()
    (tmp_path / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\nq\t{held_out}\t1\n", encoding="utf-8")
    say_more(folder, '[audit]\nqueries = "../queries.jsonl"\nqrels = "../qrels.tsv"\n')
    assert say("train", "finetune", "-w", folder)[0] == 0  # nothing of them is trained on, and the model stays
    leaked = {"_id": "q", "text": record["anchor"]}
    (tmp_path / "queries.jsonl").write_text(json.dumps(leaked), encoding="utf-8")
    for words in (("finetune",), ("prepare", "tuned", tmp_path / "job")):
        assert "the training set 'pairs' holds held-out data" in refused(say("train", *words, "-w", folder))


def test_what_stands_where_a_job_should_go_is_left_alone(copied: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "main.tex").write_text("all of it")
    with pytest.raises(InputError, match="thesis"):
        Project(copied).prepare("tuned", tmp_path / "thesis")
    assert names(tmp_path / "thesis") == ["main.tex"]
    with pytest.raises(ConfigError):  # no such task, found after the sets are written
        say_more(copied, '[finetune.odd]\nbase = "lemmata-mini"\nvalidation = { nothing = "R@5" }').prepare(
            "odd", tmp_path / "job"
        )
    assert names(tmp_path) == ["notes", "thesis"]


def test_a_model_that_saw_another_split_is_measured_with_a_warning(trained: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(trained, tmp_path / "notes")
    project = Project(folder)
    digest = json.loads((folder / "split" / "manifest.json").read_text())["digest"]
    manifest = json.loads((folder / "models" / "tuned" / "manifest.json").read_text())
    card = json.loads((folder / "models" / "tuned" / "card.json").read_text())
    assert manifest["split"] == card["split"]["sha256"] == manifest["trained_under"][0]["split"] == digest
    assert (card["split"]["seed"], card["split"]["method"]) == (0, "stratified")
    project.index(settings={"encoder": "tuned"})

    def measured() -> Any:
        return json.loads(say("evaluate", "--task", "references", "--part", "test", "-w", folder, "--json")[1])

    first = measured()
    assert first["encoder"] == "tuned"
    assert (first["trained_on"], first["notes"]) == ({}, ["queries from the test part of the split"])
    seen = {name for line in read_training(project.training_file("pairs"))
            for name in (line["anchor_id"], line["positive_id"])}  # fmt: skip
    project.split(settings={**AGAIN, "seed": 5})
    task = project.task("references", part="test")
    queries = sum(query in seen for query in task.qrels)
    answers = sum(bool(seen & set(grades)) for grades in task.qrels.values())
    assert queries > 3
    report = measured()
    assert report["trained_on"] == {"queries": queries, "answers": answers}
    assert (
        f"WARNING: tuned was trained under another split (seed 0): of {len(task.qrels)} queries it was trained on"
        f" {queries} themselves, and on answers of {answers}; the figures may be too good"
    ) in report["notes"]
    assert "encoder tuned" in say("evaluate", "--task", "references", "--part", "test", "-w", folder)[1]
    (folder / "models" / "tuned").rename(tmp_path / "brought")  # as a model that was trained elsewhere
    project.index(settings={"encoder": str(tmp_path / "brought")})
    assert measured()["trained_on"] == report["trained_on"]
    for name in ("trained.json", "trained.npy"):  # as somebody may who passes a model on
        (tmp_path / "brought" / name).unlink()
    assert any("it is not recorded on what: train it again" in note for note in measured()["notes"])
    project.index(settings={"encoder": "hashing"})
    assert measured()["notes"] == ["queries from the test part of the split"]


def test_a_model_remembers_what_its_base_saw(copied: Path) -> None:
    project = Project(copied)
    project.finetune()
    project.split(settings={**AGAIN, "seed": 5})
    project.mine("pairs")
    table = '[finetune.second]\nbase = "tuned"\nsets = { pairs = 1.0 }\nepochs = 0.3\nbatch = 20\n'
    say_more(copied, table).finetune("second")
    manifest = json.loads((copied / "models" / "second" / "manifest.json").read_text())
    assert [record["seed"] for record in manifest["trained_under"]] == [0, 5]


# ---------------------------------------------------------------- without a workspace


def test_a_prepared_job_is_trained_where_there_is_no_workspace(
    copied: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = say("train", "prepare", "tuned", tmp_path / "job", "-w", copied, "--json")
    packed = json.loads(out)
    assert (code, packed["sets"], packed["validations"]) == (0, {"pairs": 60}, {"references": 25})
    assert not (copied / "models").exists()
    split = json.loads((copied / "split" / "manifest.json").read_text())
    shutil.rmtree(copied)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    arguments = ("train", "finetune", "--job", tmp_path / "job", "--out", "model", "-o", f"base={base}")
    code, out, _ = say(*arguments)
    assert code == 0
    assert "references/MRR@10" in out
    assert "model: model" in out
    assert names(Path()) == ["model"]
    assert {"README.md", "card.json", "report.html", "history.json"} <= set(names(Path("model")))
    assert json.loads(Path("model/card.json").read_text())["split"]["sha256"] == split["digest"]
    under = json.loads(Path("model/manifest.json").read_text())["trained_under"]
    assert [(record["split"], record["seed"]) for record in under] == [(split["digest"], 0)]
    assert 60 < under[0]["passages"] <= 120
    plain = sentence_transformers.SentenceTransformer("model", device="cpu")
    assert plain.encode(["a1"], show_progress_bar=False).shape == (1, 32)
    before = times(Path())
    assert json.loads(say(*arguments, "--json")[1])["done_before"]
    assert times(Path()) == before
    report = json.loads(say(*arguments, "-o", "epochs=0.3", "--json")[1])
    assert "done_before" not in report
    assert names(Path()) == ["model"]


def test_an_odd_place_or_job_is_refused_in_a_sentence(mined: Path, base: Path, tmp_path: Path) -> None:
    Project(mined).prepare("tuned", tmp_path / "job")
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("mine")
    job = ("train", "finetune", "--job", tmp_path / "job", "-o", f"base={base}")
    assert "exists and is no model, so it is not replaced" in refused(say(*job, "--out", full))
    assert names(full) == ["thesis.tex"]
    assert "--job and --out go together" in refused(say(*job))
    assert "--job and --out go together" in refused(say("train", "finetune", "-w", mined, "--out", full))
    assert "holds no training job" in refused(say("train", "finetune", "--job", full, "--out", tmp_path / "out"))
    nowhere = ("--out", tmp_path / "out", "-o", "base=nothing")
    assert "there is no base model 'nothing'; possible are " in refused(say(*job[:-2], *nowhere))
    assert names(tmp_path) == ["full", "job"]
    assert open_job(tmp_path / "job").facts["base"] == "tiny"


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "settings", "error", "message"),
    [
        ("tunned", {}, ConfigError, r"no table \[finetune\.tunned\] \(there are: tuned"),
        ("../up", {}, ConfigError, r"the name of a model has letters, digits, - and _, not '\.\./up'"),
        (".tuned", {}, ConfigError, "the name of a model has letters, digits, - and _"),
        ("", {}, ConfigError, "the name of a model has letters, digits, - and _"),
        ("minilm", {}, ConfigError, "'minilm' comes with lemmata: choose another name"),
        ("tuned", {"base": "tuned"}, ConfigError, "'tuned'"),
        ("tuned", {"base": "bert-of-my-dreams"}, ConfigError, "'bert-of-my-dreams'"),
        ("tuned", {"base": "./nowhere"}, ConfigError, r"'\./nowhere'"),
        ("tuned", {"base": ""}, ConfigError, "''"),
        ("tuned", {"teacher": "nobody"}, ConfigError, "'nobody'"),
        ("tuned", {"preserved_sets": ["pear"]}, ConfigError, "preserved_sets: .*'pear'.*'pairs'"),
        ("tuned", {"preserved_sets": ["pairs"]}, ConfigError, "preserved_sets: "),
        ("tuned", {"sets": {"pears": 1.0}}, WorkspaceError, "'pears'.*pairs"),
        ("tuned", {"validation": {"references": "MRR10"}}, ConfigError, "'MRR10'.* MRR"),
        ("tuned", {"validation": {"riddles": "MRR@10"}}, ConfigError, "'riddles'"),
    ],
)
def test_missing_things_are_reported_in_one_sentence(
    copied: Path, name: str, settings: dict[str, Any], error: type[LemmataError], message: str
) -> None:
    project = Project(copied)
    if name not in ("tuned", "tunned"):
        project.config["finetune"][name] = project.config["finetune"]["tuned"]
    with pytest.raises(error, match=message) as told:
        project.finetune(name, settings=settings)
    assert "\n" not in str(told.value)
    assert project.models() == {}
    assert not (copied.parent / "up").exists()


def test_the_commands_report_missing_models(mined: Path) -> None:
    assert "no models yet" in say("train", "models", "-w", mined)[1]
    assert "there is no encoder 'tuned'; possible are" in refused(say("index", "--encoder", "tuned", "-w", mined))
    assert "no base model 'dream'" in refused(say("train", "finetune", "-o", "base=dream", "-w", mined))
    assert "no base model 'dream'" in refused(say("train", "pretrain", "-o", "base=dream", "-w", mined))
    assert "no table [finetune.dream]" in refused(say("train", "prepare", "dream", "job", "-w", mined))


def test_the_folder_of_a_model_is_ready_for_the_hub(trained: Path) -> None:
    folder = trained / "models" / "tuned"
    data = check_for_the_hub(folder, "tuned")
    report = (read_manifest(folder / "manifest.json") or {})["report"]
    [result] = data.eval_results
    assert (result.dataset_name, result.dataset_split, result.metric_name) == ("references", "validation", "MRR@10")
    assert result.metric_value == pytest.approx(report["after"]["references/MRR@10"], abs=1e-4)
    assert data.library_name == "sentence-transformers"
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    assert model.encode(["a1 a2"]).shape == (1, 32)
