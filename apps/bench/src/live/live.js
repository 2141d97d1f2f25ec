// Shows the present figures once a second, and the report when the command has ended.
const main = document.querySelector("main");
const lost = document.querySelector("#lost");

async function refresh() {
  try {
    const reply = await fetch("now");
    main.innerHTML = await reply.text();
    lost.hidden = true;
    const state = reply.headers.get("x-state");
    if (state === "report") {
      location.replace("report");
      return;
    }
    if (state === "ended") return;
  } catch {
    lost.hidden = false;
  }
  setTimeout(refresh, 1000);
}

refresh();
