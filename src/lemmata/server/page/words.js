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

export { RETRIEVERS } from "./retrievers.js"; // which the server writes: by name, title and description

// What auto weighs here, and where the weights come from; `health` is the answer of /health.
export function autoWords(health) {
  const chosen = health.vectors.find((one) => one.default)?.fusion;
  if (!chosen || health.note) return "Words alone: there are no vectors to compare meanings with.";
  const { fitted } = chosen;
  return `${weights(chosen)}: ${fitted ? `fitted to ${fitted.queries} queries of ${String(fitted.task).split("/").at(-1)}` : "the weights that come with lemmata, not fitted to this corpus"}.`;
}

export function weights({ formula }) {
  return formula.replaceAll("dense", "meaning").replaceAll("lexical", "words");
}

const KINDS = { chunk: "Text" };

export function kindWord(kind, number, printed) {
  if (number) return `${printed || kindWord(kind)} ${number}`;
  if (KINDS[kind]) return KINDS[kind];
  return kind ? kind.charAt(0).toUpperCase() + kind.slice(1).replaceAll("-", " ") : "Passage";
}

// The label of a passage without its document, or the name of a concept or location.
export function shortName(id) {
  return id.replace(/^(concept|location):/, "").replace(/^[^#]*#/, "");
}

// What the passages of a workspace are called: a plant has logs only.
export function passageWord({ kinds }) {
  return Object.keys(kinds).join() === "log" ? "log" : "passage";
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
