// Links of logs that were predicted: how probable they are, and a button that confirms them or takes that back.

import { post } from "./api.js";
import { address, announce, h, problem } from "./dom.js";
import { moment, parts, percent, t } from "./language.js";
import { shortName, shortened } from "./words.js";

const PREDICTED = {
  reports_about: "Predicted, {chance}: reports about {other}",
  related_to: "Predicted, {chance}: follows {other}",
  "^related_to": "Predicted, {chance}: is followed by {other}",
};
const CONFIRMED = {
  reports_about: "Confirmed: reports about {other}",
  related_to: "Confirmed: follows {other}",
  "^related_to": "Confirmed: is followed by {other}",
};

// `id` is the log that the link is shown with.
export function predictedLink(record, id) {
  const { other, source, relation, target } = record;
  const way = target === id ? `^${relation}` : relation;
  const name = other.kind === "location" ? [h("span", { class: "mono" }, shortName(other.id)), " ", other.title] : `${moment(other.date)} ${shortened(other.name || other.id, 60)}`;
  const link = h("a", { href: address(other.id, other.kind) }, name);
  const words = h("span");
  const button = h("button", { type: "button", class: "plain small" });
  const element = h("p", { class: "predicted" }, words, " ", button);
  const draw = () => {
    const chance = record.probability === null ? "–" : percent(record.probability);
    words.replaceChildren(...parts((record.confirmed ? CONFIRMED : PREDICTED)[way] || `${relation} {other}`, { chance, other: link }));
    element.classList.toggle("confirmed", record.confirmed);
    button.textContent = record.confirmed ? t("Undo") : t("Confirm");
    button.setAttribute("aria-label", `${button.textContent}: ${link.textContent}`);
  };
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      ({ confirmed: record.confirmed } = await post("/confirm", { source, relation, target, confirmed: !record.confirmed }));
      draw();
      announce(record.confirmed ? t("confirmed") : t("no longer confirmed"));
    } catch (error) {
      element.append(problem(error));
    }
    button.disabled = false;
  });
  draw();
  return element;
}
