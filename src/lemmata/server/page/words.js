// Relations, kinds and retrievers in plain words.

const RELATIONS = {
  similar_to: ["resembles", "resembles"],
  proof_uses: ["uses in its proof", "is used in the proof of"],
  refers_to: ["refers to", "is referred to by"],
  cites: ["cites", "is cited by"],
  mentions: ["mentions", "is mentioned in"],
  defines: ["defines", "is defined in"],
  part_of: ["is part of", "contains"],
  next: ["is followed by", "follows"],
  proves: ["proves", "is proved by"],
  uses: ["uses", "is used by"],
  is_instance_of: ["is a case of", "has the case"],
  generalizes: ["generalizes", "is generalized by"],
  implies: ["implies", "is implied by"],
  equivalent_to: ["is equivalent to", "is equivalent to"],
  related_to: ["is related to", "is related to"],
  reports_about: ["reports about", "is reported about by"],
};

// As short as it fits beside an arrow, which then points the way the relation goes.
export function shortRelation(relation) {
  const name = relation.replace(/^\^/, "");
  return { similar_to: "resembles", proof_uses: "proof uses", is_instance_of: "case of", next: "before" }[name] || name.replaceAll("_", " ");
}

export function relationWords(relation) {
  const backwards = relation.startsWith("^");
  const name = backwards ? relation.slice(1) : relation;
  const words = RELATIONS[name] || [name.replaceAll("_", " "), `${name.replaceAll("_", " ")}, backwards:`];
  return words[backwards ? 1 : 0];
}

const FAMILIES = {
  theorem: "result", proposition: "result", lemma: "result", corollary: "result", conjecture: "result", claim: "result", fact: "result",
  definition: "term", notation: "term", convention: "term", concept: "term",
  example: "example", exercise: "example", problem: "example", question: "example", algorithm: "example",
  log: "log", location: "log",
};

export function family(kind) {
  return FAMILIES[kind] || "prose";
}

export const RETRIEVERS = {
  auto: ["Auto", "Words, meaning and citations, weighed by what validation chose for this corpus."],
  hybrid: ["Hybrid", "Words and meaning, weighed equally."],
  dense: ["Meaning", "Vectors of the encoder: finds passages that say it in other words."],
  lexical: ["Words", "BM25: passages that have the words and formulas of the query."],
  diffusion: ["Diffusion", "Meaning, then one step along references: what the nearest passages rely on."],
  geodesic: ["Geodesic", "The nearest along the graph: the shortest way from the query through its edges."],
};

const KINDS = { chunk: "Text" };

export function kindWord(kind) {
  if (KINDS[kind]) return KINDS[kind];
  return kind ? kind.charAt(0).toUpperCase() + kind.slice(1).replaceAll("-", " ") : "Passage";
}

// A name for what has no title: its label, without the document.
export function shortName(id) {
  return id.replace(/^(concept|location):/, "").replace(/^[^#]*#/, "");
}

// What a hit or a neighbour without a title is called.
export function nameOf(record) {
  if (record.kind === "chunk") return record.section || record.id.replace("@", ", part ");
  if (record.kind === "abstract") return record.document_title || record.id.replace(/#.*/, "");
  if (record.kind === "log") return moment(record.date) || shortened(record.excerpt || record.id, 40);
  return shortName(record.id);
}

export function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1).trimEnd()}…` : text;
}

export function day(date) {
  return (date || "").slice(0, 10);
}

export function moment(date) {
  return (date || "").slice(0, 16).replace("T", " ");
}
