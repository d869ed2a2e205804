// Before the first paint: the theme that was chosen here, else that of the system.
const chosen = localStorage.getItem("theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
// What language.js will ask for, at the same time as the rest.
if (/^de\b/i.test(navigator.language)) document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href: "/page/german.js" }));
