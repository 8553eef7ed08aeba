// The picture: a page of its own in a frame that can do nothing but draw; the next one is shown once it is there.

import { byId, make } from "./pieces.js";

export class Picture {
  constructor() {
    this.place = byId("frames");
    this.shown = null;
  }

  show(page) {
    if (page === this.page) return this.fade(false);
    this.page = page;
    const frame = make("iframe", { sandbox: "allow-scripts", title: "Picture of the network", srcdoc: page });
    if (this.coming) this.coming.remove();
    this.coming = frame;
    frame.addEventListener("load", () => {
      if (this.coming !== frame) return;
      this.coming = null;
      if (this.shown) this.shown.remove();
      this.shown = frame;
      frame.classList.add("shown");
      this.fade(false);
    });
    this.place.append(frame);
    byId("nothing").hidden = true;
  }

  /** Whether the picture is of an older text. */
  fade(old) {
    this.place.classList.toggle("old", old);
  }
}
