// The picture: a page in a frame that may only run scripts. A new picture replaces the old one when it has loaded.

import { byId, make } from "./elements.js";

export class Picture {
  constructor() {
    this.parent = byId("frames");
    this.shown = null;
    this.loading = null;
  }

  show(page) {
    if (page === this.page) return;
    this.page = page;
    const frame = make("iframe", { sandbox: "allow-scripts allow-downloads", title: "Picture of the network", srcdoc: page });
    if (this.loading) this.loading.remove();
    this.loading = frame;
    frame.addEventListener("load", () => {
      if (this.loading !== frame) return;
      this.loading = null;
      if (this.shown) this.shown.remove();
      this.shown = frame;
      frame.classList.add("shown");
    });
    this.parent.append(frame);
    byId("no-picture").hidden = true;
  }
}
