// Requests to the server that gave this page, and to no other.

import { t } from "./language.js";

export class ApiError extends Error {
  constructor(status, { code = "", message = "", cure = "" } = {}) {
    super(message || t("the server answered {status}", { status }));
    Object.assign(this, { status, code, cure });
  }
}

function headers(more) {
  const token = sessionStorage.getItem("token");
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

export async function get(path, signal) {
  return answered(() => fetch(path, { headers: headers({}), signal }));
}

export async function post(path, body, signal) {
  const send = () =>
    fetch(path, { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body), signal });
  return answered(send);
}

// Sent again while the server is away or busy, until somebody gives up.
export async function getPatiently(path, signal) {
  for (let seconds = 1; ; seconds = Math.min(2 * seconds, 30)) {
    try {
      return await get(path, signal);
    } catch (error) {
      if (![0, 503].includes(error.status)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  }
}

async function answered(send) {
  const response = await response_of(send);
  return response.json();
}

async function response_of(send) {
  let response;
  try {
    response = await send();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "unreachable", message: t("the server does not answer"), cure: t("start it again with 'lemmata serve'") });
  }
  if (response.status === 401) {
    await askForToken();
    return response_of(send);
  }
  if (!response.ok) {
    const content = await response.json().catch(() => ({}));
    throw new ApiError(response.status, content.error);
  }
  return response;
}

let asking = null;

function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("token");
    dialog.showModal();
    dialog.addEventListener(
      "close",
      () => {
        sessionStorage.setItem("token", document.getElementById("token-value").value);
        asking = null;
        resolve();
      },
      { once: true },
    );
  });
  return asking;
}

// Server-sent events of a POST: calls `receive(name, data)` for each.
export async function stream(path, body, receive, signal) {
  const send = () =>
    fetch(path, { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body), signal });
  const reader = (await response_of(send)).body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { done, value } = await reader.read();
    left += done ? "\n\n" : value.replaceAll("\r\n", "\n");
    let end;
    while ((end = left.indexOf("\n\n")) >= 0) {
      const lines = left.slice(0, end).split("\n");
      left = left.slice(end + 2);
      const name = lines.find((line) => line.startsWith("event:"))?.slice(6).trim();
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim());
      if (name && data.length) receive(name, JSON.parse(data.join("\n")));
    }
    if (done) return;
  }
}

let health = null;

// What the workspace holds; asked for once.
export function workspace() {
  health ??= get("/health").catch((error) => {
    health = null;
    throw error;
  });
  return health;
}

export function forgetWorkspace() {
  health = null;
}
