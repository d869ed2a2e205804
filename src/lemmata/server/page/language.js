// The language of the page: English as it stands in the code, or German where the browser prefers it. What comes from the
// corpus stays as it is. German stands in german.js under the English text, which `|…` tells apart from
// the same word with another meaning; `{name}` is a value.

export const language = /^de\b/i.test(navigator.language) ? "de" : "en";
const german = language === "de" ? await import("./german.js") : { GERMAN: {}, SAID: {} };
const table = new Map(Object.entries(german.GERMAN));
const messages = Object.entries(german.SAID).map(([text, words]) => {
  const fixed = text.split(/\{\w+\}/).map((part) => part.replace(/[.*+?^$()[\]|\\]/g, "\\$&"));
  return { form: new RegExp(`^${fixed.join("(.+?)")}$`, "is"), names: text.match(/(?<=\{)\w+(?=\})/g) || [], words };
});

export function t(text, values) {
  return parts(text, values).join("");
}

// As t, with elements among the values: a list of children.
export function parts(text, values = {}) {
  const words = table.get(text) ?? text.split("|")[0];
  return words.split(/\{(\w+)\}/).map((part, place) => (place % 2 ? values[part] : part));
}

// A message of the server in German, as far as its form is known; what it names stays as it is.
export function said(text) {
  for (const { form, names, words } of messages) {
    const found = form.exec(text);
    if (found) return words.replace(/\{(\w+)\}/g, (_, name) => said(found[1 + names.indexOf(name)]));
  }
  return table.get(text) ?? (/^\d{1,3}(,\d{3})+$/.test(text) ? number(text.replaceAll(",", "")) : text);
}

// The fixed texts of index.html.
export function translatePage() {
  document.documentElement.lang = language;
  if (language === "en") return;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) node.data = node.data.replace(/\S.*\S|\S/s, (words) => t(words));
  for (const name of ["aria-label", "title"]) for (const element of document.querySelectorAll(`body [${name}]`)) element.setAttribute(name, t(element.getAttribute(name)));
}

export function number(value) {
  return Number(value).toLocaleString(language);
}

export function percent(share) {
  return `${number(Math.round(100 * share))} %`;
}

export function decimal(value, digits) {
  return Number(value).toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false });
}

// "1 passage", "3 passages".
export function counted(value, noun) {
  const plural = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${number(value)} ${t(value === 1 ? noun : plural)}`;
}

const DATES = { en: "sv", de: "de" }; // Swedish is written 2024-05-31, which no reader of English mistakes
const STYLE = language === "de" ? "medium" : "short";

// A date of the corpus as it was written there, 2024, 2024-05 or 2024-05-31T10:00, whatever the time zone of the browser.
export function day(date) {
  return shown((date || "").slice(0, 10), /^\d{4}-\d\d-\d\d$/, { dateStyle: STYLE });
}

export function moment(date) {
  const text = (date || "").slice(0, 16).replace(" ", "T");
  return text.length < 16 ? day(text) : shown(text, /^\d{4}-\d\d-\d\dT\d\d:\d\d$/, { dateStyle: STYLE, timeStyle: "short" });
}

// What was typed as a date, as the server reads it: 31.5.2024 and 05.2024 are 2024-05-31 and 2024-05.
export function typedDate(text) {
  const [, ...parts] = /^(?:(\d{1,2})\.)?(\d{1,2})\.(\d{4})$/.exec(text.trim().replaceAll(" ", "")) || [];
  return parts.length ? parts.reverse().filter(Boolean).map((part) => part.padStart(2, "0")).join("-") : text.trim();
}

function shown(text, form, style) {
  const time = form.test(text) ? new Date(text.length > 10 ? `${text}Z` : text) : NaN;
  return Number.isNaN(+time) ? text.replace("T", " ") : new Intl.DateTimeFormat(DATES[language], { ...style, timeZone: "UTC" }).format(time);
}

// Seconds since 1970, in the time zone of the browser.
export function time(seconds) {
  return new Intl.DateTimeFormat(DATES[language], { dateStyle: STYLE, timeStyle: "short" }).format(new Date(1000 * seconds));
}
