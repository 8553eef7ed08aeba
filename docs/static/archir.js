"use strict";

/* Code and tables that are wider than the page can be scrolled by keyboard. */
function markScrollable() {
  for (const element of document.querySelectorAll("pre, .table-wrapper, .cell_output .output")) {
    if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
    else element.removeAttribute("tabindex");
  }
}

/* List the versions of versions.json, which lies beside the folder of this version. A link leads to the same page of
another version, or to its first page if there is no such page. */
async function listVersions() {
  const menu = document.querySelector(".versions");
  const root = new URL(document.documentElement.dataset.content_root, document.baseURI);
  const file = new URL("../versions.json", root);
  const versions = await (await fetch(file)).json();
  if (versions.length < 2) return;
  const page = location.href.startsWith(root) ? location.pathname.slice(root.pathname.length) : "";
  for (const { version, url } of versions) {
    const link = document.createElement("a");
    link.textContent = version;
    link.href = new URL(url, file);
    if (link.href === root.href) link.setAttribute("aria-current", "true");
    menu.querySelector("ul").appendChild(document.createElement("li")).append(link);
  }
  const findPages = () => {
    for (const link of menu.querySelectorAll("a")) {
      const same = new URL(page, link.href);
      fetch(same, { method: "HEAD" }).then((answer) => { if (answer.ok) link.href = same; }).catch(() => {});
    }
  };
  menu.addEventListener("toggle", findPages, { once: true });
  menu.hidden = false;
}

markScrollable();
addEventListener("load", markScrollable);
addEventListener("resize", markScrollable);
listVersions().catch(() => {}); // without the file, only this version is known
