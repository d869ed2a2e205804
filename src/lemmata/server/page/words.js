// Relations, kinds and retrievers in plain words.

import { number, t } from "./language.js";
import { RETRIEVERS as written } from "./retrievers.js"; // by the server

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
  return t({ similar_to: "resembles", proof_uses: "proof uses", is_instance_of: "case of", next: "before" }[name] || name.replaceAll("_", " "));
}

export function relationWords(relation) {
  const backwards = relation.startsWith("^");
  const name = backwards ? relation.slice(1) : relation;
  if (RELATIONS[name]) return t(RELATIONS[name][backwards ? 1 : 0]);
  return backwards ? t("{relation}, backwards:", { relation: name.replaceAll("_", " ") }) : name.replaceAll("_", " ");
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

// By name: title and description.
export const RETRIEVERS = Object.fromEntries(Object.entries(written).map(([name, words]) => [name, words.map((text) => t(text))]));

// What auto weighs here, and where the weights come from; `health` is the answer of /health.
export function autoWords(health) {
  const chosen = health.vectors.find((one) => one.default)?.fusion;
  if (!chosen || health.note) return t("Words alone: there are no vectors to compare meanings with.");
  const { fitted } = chosen;
  const weighed = weights(chosen);
  if (!fitted) return t("{weighed}: the weights that come with lemmata, not fitted to this corpus.", { weighed });
  return t("{weighed}: fitted to {queries} queries of {task}.", { weighed, queries: fitted.queries, task: String(fitted.task).split("/").at(-1) });
}

export function weights({ formula }) {
  const words = { dense: "meaning", lexical: "words" };
  return formula.replace(/[a-z]+|\d+\.\d+/g, (part) => (/\d/.test(part) ? number(part) : t(words[part] || part)));
}

const KINDS = { chunk: "Text", "": "Passage" };

export function kindWord(kind, number, printed) {
  const name = KINDS[kind || ""] || kind.charAt(0).toUpperCase() + kind.slice(1).replaceAll("-", " ");
  return number ? `${printed || t(name)} ${number}` : t(name);
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
