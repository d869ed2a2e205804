// Links of logs that were predicted: how probable they are, and a button that confirms them or takes that back.

import { post } from "./api.js";
import { address, announce, h, problem } from "./dom.js";
import { moment, shortName, shortened } from "./words.js";

const SAID = {
  reports_about: ["is probably about", "is probably reported about by"],
  related_to: ["probably follows", "is probably followed by"],
};

// `id` is the log that the link is shown with.
export function predictedLink(record, id) {
  const isTarget = record.target === id;
  const { other } = record;
  const name = other.kind === "location" ? [h("span", { class: "mono" }, shortName(other.id)), " ", other.title] : [moment(other.date), " ", shortened(other.name || other.id, 60)];
  const words = h("span");
  const button = h("button", { type: "button", class: "plain small" });
  const element = h("p", { class: "predicted" }, words, " ", h("a", { href: address(other.id, other.kind) }, name), " ", button);
  const draw = () => {
    const [forwards, backwards] = SAID[record.relation] || [record.relation, record.relation];
    const said = isTarget ? backwards : forwards;
    const chance = record.probability === null ? "" : `${Math.round(100 * record.probability)} %: `;
    words.textContent = record.confirmed ? `Confirmed: ${said.replace("probably ", "")}` : `Predicted, ${chance}${said}`;
    element.classList.toggle("confirmed", record.confirmed);
    button.textContent = record.confirmed ? "Undo" : "Confirm";
    button.setAttribute("aria-label", `${button.textContent}: ${said.replace("probably ", "")} ${other.kind === "location" ? shortName(other.id) : moment(other.date)}`);
  };
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const { source, relation, target } = record;
      ({ confirmed: record.confirmed } = await post("/confirm", { source, relation, target, confirmed: !record.confirmed }));
      draw();
      announce(record.confirmed ? "confirmed" : "no longer confirmed");
    } catch (error) {
      element.append(problem(error));
    }
    button.disabled = false;
  });
  draw();
  return element;
}
