import { render } from "preact";
import { App } from "./app.tsx";
import { entry } from "./core/api.ts";
import { watchKeys } from "./core/keys.ts";
import { go, watchRoute } from "./core/route.ts";
import { type LogPort, setPageKind } from "./core/session-view.ts";
import { applyTheme } from "./core/theme.ts";
import { LogEngine } from "./log/engine.ts";
import "./styles/page.css";
import "./styles/session.css";
import "./styles/text.css";

/** The page of `sluice export --html`: the log lies in the file, and its owner runs in the page itself. */
const text = document.querySelector("#log")?.textContent ?? "";
const [head = "{}", ...events] = text.trim().split("\n");
const { session } = JSON.parse(head) as { session: string };

function openLog(): LogPort {
  const port: LogPort = { post: (message) => engine.receive(message), onMessage: () => {}, close: () => {} };
  const engine = new LogEngine((message) => queueMicrotask(() => port.onMessage(message)));
  return port;
}

setPageKind({ openLog, file: { session, events } });
applyTheme();
watchRoute();
watchKeys();
entry.value = { state: "open" };
if (!location.hash.startsWith("#/s/"))
  go({ name: "session", id: session, tab: "transcript" }, { replace: true });
render(<App />, document.querySelector("#page") as Element);
