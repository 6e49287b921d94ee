// Material wraps a wide table in a box that scrolls; keys must be able to reach it.
new MutationObserver(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) box.tabIndex = 0;
}).observe(document.body, { childList: true, subtree: true });
