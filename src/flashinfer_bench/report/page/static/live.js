// A page that a server keeps up to date: told that there is more, it shows the new state in place.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const html = document.documentElement;
  const main = document.getElementById("main");
  const said = Object.assign(document.createElement("span"), { id: "live", textContent: "Live" });
  said.setAttribute("role", "status");
  document.querySelector("footer").append(said);

  let wanted = html.dataset.live;
  let isBusy = false;
  const isInUse = () => main.querySelector("input:focus, select:focus") !== null;
  async function refresh() {
    if (isBusy || isInUse() || wanted === html.dataset.live) return;
    isBusy = true;
    try {
      const answer = await fetch(location.pathname, { cache: "no-store" });
      const page = answer.ok && new DOMParser().parseFromString(await answer.text(), "text/html");
      if (page && page.getElementById("main")) {
        if (isInUse()) return;
        fib.show(page);
        html.dataset.live = page.documentElement.dataset.live;
        said.textContent = `Live: new results at ${new Date().toLocaleTimeString()}`;
      }
    } catch {
      // The server is away; the stream says when it is back.
    } finally {
      isBusy = false;
    }
    if (wanted !== html.dataset.live) setTimeout(refresh, 1000);
  }
  main.addEventListener("focusout", () => setTimeout(refresh));

  // A browser has six connections to a server: pages that nobody looks at give theirs back.
  let news = null;
  function listen() {
    news?.close();
    news = null;
    if (document.hidden) return;
    news = new EventSource(`${html.dataset.root}news`);
    news.addEventListener("state", (event) => { wanted = event.data; refresh(); });
    news.addEventListener("open", () => { if (said.textContent === "Live: no connection") said.textContent = "Live"; });
    news.addEventListener("error", () => { said.textContent = "Live: no connection"; });
  }
  document.addEventListener("visibilitychange", listen);
  listen();
});
