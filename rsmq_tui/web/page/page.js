// Starts the terminal of textual.js when its font is loaded, sends the link to open, and shows how the session ended.
"use strict";

const BrowserSocket = window.WebSocket;

// textual.js makes one WebSocket, with the size of the terminal in its address.
window.WebSocket = class extends BrowserSocket {
  constructor(address) {
    const whole = new URL(address, window.location.href);
    const link = window.location.hash.replace(/^#\/?/, "");
    if (link) whole.searchParams.set("link", link);
    super(whole.href);
    this.addEventListener("open", takeKeys);
    this.addEventListener("close", (event) => tellEnd(event.reason));
  }
};

function tellEnd(reason) {
  document.getElementById("why").textContent = reason || "The connection to the server is lost.";
  document.getElementById("ended").hidden = false;
  document.getElementById("again").focus();
}

// Without this, keys would have no effect before the first click.
function takeKeys() {
  const keys = document.querySelector(".xterm-helper-textarea");
  keys.focus();
  window.addEventListener("focus", () => keys.focus());
}

function openTerminal() {
  const element = document.getElementById("terminal");
  const address = new URL("ws", window.location.href);
  address.protocol = window.location.protocol === "https:" ? "wss:" : "ws:";
  address.search = address.hash = "";
  element.dataset.sessionWebsocketUrl = address.href;
  const script = document.createElement("script");
  script.src = "static/js/textual.js";
  script.onload = () => {
    // It waits for this event, which is over.
    window.onload();
  };
  document.head.append(script);
}

// xterm.js measures a character once: with another font, lines would be cut off.
const faces = ["15px 'Roboto Mono'", "bold 15px 'Roboto Mono'", "italic 15px 'Roboto Mono'"];
window.addEventListener("load", () => {
  Promise.allSettled(faces.map((face) => document.fonts.load(face))).then(openTerminal);
});
window.addEventListener("hashchange", () => window.location.reload());
document.getElementById("again").addEventListener("click", () => window.location.reload());
