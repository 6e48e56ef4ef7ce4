import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { announcement, toast } from "./core/announce.ts";
import { enter, entry, isOutdated, logout, me } from "./core/api.ts";
import { activeBindings, useKeys } from "./core/keys.ts";
import { lazy } from "./core/lazy.tsx";
import { go, route } from "./core/route.ts";
import { isFile } from "./core/session-view.ts";
import { theme, turnTheme } from "./core/theme.ts";
import { Dialog } from "./parts/dialog.tsx";
import { Guard } from "./parts/guard.tsx";
import { Icon } from "./parts/icon.tsx";
import { Palette, paletteOpen } from "./screens/palette.tsx";
import { ProblemPage } from "./screens/problem.tsx";
import { SessionScreen } from "./screens/session.tsx";
import { SessionsScreen } from "./screens/sessions.tsx";

const NewSession = lazy<object>(async () => (await import("./screens/new-session.tsx")).NewSession);
const Server = lazy<object>(async () => (await import("./panes/server/server.tsx")).Server);
const helpOpen = signal(false);

/** The whole page: its frame, and the screen of the address. */
export function App(): JSX.Element {
  useKeys([
    { keys: "?", label: "this list", run: () => (helpOpen.value = true) },
    { keys: "t", label: "theme", run: turnTheme },
    { keys: "Mod+k", label: "palette", inText: true, run: () => (paletteOpen.value = !paletteOpen.value) },
    { keys: "/", label: "search", run: () => (paletteOpen.value = true) },
    ...(isFile() ? [] : [{ keys: "h", label: "all sessions", run: () => go({ name: "sessions" }) }]),
  ]);
  return (
    <div class="app">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Frame />
      {isOutdated.value && (
        <div class="past" role="alert">
          The server was started again with another version of this page.
          <button onClick={() => location.reload()}>Load the new one</button>
        </div>
      )}
      <Guard label="This screen">
        <Screen />
      </Guard>
      {paletteOpen.value && <Palette />}
      {helpOpen.value && <Help />}
      <div class="sr-only" role="status" aria-live="polite">
        {announcement.value}
      </div>
      {toast.value && (
        <div class={`toast toast-${toast.value.kind}`} role={toast.value.kind === "bad" ? "alert" : "status"}>
          {toast.value.text}
          <button aria-label="Close" onClick={() => (toast.value = undefined)}>
            <Icon name="close" />
          </button>
        </div>
      )}
    </div>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>("#main [tabindex], #main a, #main button")?.focus();
}

function Frame(): JSX.Element {
  return (
    <nav class="frame" aria-label="Page">
      <a class="brand" href="#/">
        sluice
      </a>
      <span class="frame-room" />
      {me.value.session !== undefined && <span class="badge">one session</span>}
      {me.value.scope !== "admin" && entry.value.state === "open" && (
        <span class="badge">{me.value.scope} only</span>
      )}
      <button class="quiet" onClick={() => (paletteOpen.value = true)} aria-label="Palette">
        <Icon name="search" /> <kbd>Ctrl K</kbd>
      </button>
      <button
        class="quiet"
        onClick={turnTheme}
        aria-label={`Theme: ${theme.value}`}
        title={`Theme: ${theme.value}`}
      >
        <Icon name="sun" />
      </button>
      <button class="quiet" onClick={() => (helpOpen.value = true)} aria-label="Keys">
        ?
      </button>
      {me.value.login && entry.value.state === "open" && (
        <button class="quiet" onClick={() => void logout()}>
          Log out
        </button>
      )}
    </nav>
  );
}

function Screen(): JSX.Element {
  const state = entry.value;
  const here = route.value;
  const only = me.value.session;
  useEffect(() => {
    if (only !== undefined && here.name === "sessions")
      go({ name: "session", id: only, tab: "transcript" }, { replace: true });
  }, [only, here.name]);
  if (state.state === "opening") return <main class="empty" id="main" aria-busy="true" />;
  if (state.state === "unreachable") return <Unreachable detail={state.detail} />;
  if (state.state === "refused") return <Login detail={state.detail} />;
  if (state.state === "failed")
    return <ProblemPage code="failed" title={state.title} detail={state.detail} />;
  if (here.name === "session") return <SessionScreen key={here.id} route={here} />;
  if (here.name === "new") return <NewSession />;
  if (here.name === "server") return <Server />;
  if (here.name === "unknown")
    return (
      <ProblemPage
        code="not_found"
        title="There is no such page"
        detail={`The address ends with ${here.hash.slice(0, 200)}, which names nothing here.`}
      />
    );
  return <SessionsScreen />;
}

function Login(props: { detail: string }): JSX.Element {
  return (
    <main class="problem" id="main">
      <h1>Log in</h1>
      <p>This server asks for a token, and this browser is not logged in.</p>
      <p>Run this on the server’s machine. It opens the page with a link that works once:</p>
      <pre class="code" tabIndex={0}>
        <code>sluice open</code>
      </pre>
      <p class="muted">{props.detail}</p>
    </main>
  );
}

function Unreachable({ detail }: { detail: string }): JSX.Element {
  useEffect(() => {
    const timer = setInterval(() => void enter(), 2_000);
    return () => clearInterval(timer);
  }, []);
  return <ProblemPage code="unreachable" title="The server does not answer" detail={detail} />;
}

const NAMES: Readonly<Record<string, string>> = {
  " ": "space",
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
  "Shift+ArrowLeft": "⇧←",
  "Shift+ArrowRight": "⇧→",
  Enter: "⏎",
  "Mod+k": "Ctrl K",
  "Mod+Enter": "Ctrl ⏎",
  "Alt+Enter": "Alt ⏎",
  Escape: "Esc",
};

function Help(): JSX.Element {
  const close = (): void => void (helpOpen.value = false);
  return (
    <Dialog label="Keys" onClose={close}>
      <h2>Keys</h2>
      <dl class="keys">
        {activeBindings().map(({ keys, label }) => (
          <div key={keys}>
            <dt>
              <kbd>{NAMES[keys] ?? keys}</kbd>
            </dt>
            <dd>{label}</dd>
          </div>
        ))}
      </dl>
      <button onClick={close}>Close</button>
    </Dialog>
  );
}
