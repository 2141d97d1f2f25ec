// Keeps the parts of a page with data-live up to date, and asks before forms with data-confirm are
// sent. The pages work without it, too.
"use strict";

const PERIOD = 5000;

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});

async function refresh() {
  const parts = document.querySelectorAll("[data-live]");
  if (parts.length === 0 || document.hidden) return;
  const response = await fetch(location.href, { headers: { "X-Poll": "1" }, redirect: "manual" });
  // The session has ended.
  if (response.type === "opaqueredirect") return location.reload();
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of parts) {
    const fresh = page.getElementById(part.id);
    // A part that has the focus of the keyboard stays as it is.
    if (fresh && !part.contains(document.activeElement) && fresh.innerHTML !== part.innerHTML) {
      part.replaceChildren(...fresh.childNodes);
    }
  }
}

setInterval(() => refresh().catch(() => {}), PERIOD);
