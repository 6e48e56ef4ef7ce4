import { render } from "preact";
import { App } from "./app.tsx";
import { enter } from "./core/api.ts";
import { watchKeys } from "./core/keys.ts";
import { watchRoute } from "./core/route.ts";
import { type LogPort, setPageKind } from "./core/session-view.ts";
import { applyTheme } from "./core/theme.ts";
import type { FromLog } from "./log/protocol.ts";
import "./styles/page.css";
import "./styles/session.css";
import "./styles/text.css";

interface Policies {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): unknown;
}

/** The browser refuses every script address that this does not let through: only our own files. */
(globalThis as { trustedTypes?: Policies }).trustedTypes?.createPolicy("default", {
  createScriptURL(url) {
    if (new URL(url, location.href).origin === location.origin) return url;
    throw new TypeError("The page starts no script of another origin.");
  },
});

function openLog(): LogPort {
  const worker = new Worker(new URL("./log/worker.ts", import.meta.url), { type: "module" });
  const port: LogPort = {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a worker has one receiver
    post: (message) => worker.postMessage(message),
    onMessage: () => {},
    close: () => worker.terminate(),
  };
  worker.onmessage = (event: MessageEvent<FromLog>) => port.onMessage(event.data);
  return port;
}

setPageKind({ openLog });
applyTheme();
// A link of `sluice open` may be pasted into a page that is open. It is taken before anything reads the address.
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#k=")) void enter();
});
watchRoute();
watchKeys();
render(<App />, document.querySelector("#page") as Element);
void enter();
