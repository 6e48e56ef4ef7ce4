import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { checkVersion, client, may, me, wordsOf } from "../core/api.ts";
import { toAgo, toCost, toLine, toShort } from "../core/format.ts";
import { type Binding, useKeys } from "../core/keys.ts";
import { go } from "../core/route.ts";
import type { SessionEntry } from "../../contract/index.ts";
import { REST_AFTER_MS } from "../log/server-log.ts";
import { Code } from "../parts/code.tsx";
import { Icon } from "../parts/icon.tsx";
import { Lines } from "../parts/lines.tsx";
import { Status } from "../parts/status.tsx";
import { Answer } from "../transcript/ask.tsx";
import { describeAsk } from "../transcript/tool-words.ts";

const ROW = 56;
const sessions = signal<readonly SessionEntry[]>([]);
const failure = signal("");
const query = signal("");
const chosen = signal(0);
const answering = signal<string | undefined>(undefined);
const isLoaded = signal(false);

/** All sessions: those that wait for somebody first, then the newest. */
export function SessionsScreen(): JSX.Element {
  useSessions();
  if (answering.value !== undefined && !asking()) answering.value = undefined;
  const search = useRef<HTMLInputElement>(null);
  const shown = sessions.value.filter(matches);
  const open = (index: number): void => {
    const info = shown[index];
    if (info) go({ name: "session", id: info.sessionId, tab: "transcript" });
  };
  const at = Math.max(0, Math.min(chosen.value, shown.length - 1));
  const move = (by: number): void => {
    chosen.value = Math.max(0, Math.min(at + by, shown.length - 1));
    answering.value = undefined;
  };
  useKeys([
    { keys: "ArrowDown", label: "next session", run: () => move(1) },
    { keys: "ArrowUp", label: "session before", run: () => move(-1) },
    { keys: "j", label: "next session", run: () => move(1) },
    { keys: "k", label: "session before", run: () => move(-1) },
    { keys: "Enter", label: "open", run: () => open(at) },
    { keys: "/", label: "search", run: () => search.current?.focus() },
    { keys: "f", label: "filter", run: () => search.current?.focus() },
    ...(may("answer") ? answerKeys(shown[at]) : []),
    ...(may("control") && answering.value === undefined
      ? [{ keys: "n", label: "new session", run: () => go({ name: "new" }) }]
      : []),
  ]);
  const running = sessions.value.filter(({ status }) => status === "running").length;
  const waiting = sessions.value.filter(({ pendingActions }) => pendingActions.length > 0).length;
  return (
    <main class="sessions" id="main">
      <header class="head">
        <h1>Sessions</h1>
        <label class="search">
          <Icon name="search" />
          <input
            ref={search}
            type="search"
            aria-label="Search sessions"
            placeholder="search"
            value={query.value}
            onInput={(event) => (query.value = event.currentTarget.value)}
          />
        </label>
        <span class="facts" role="status">
          <span>{running} running</span>
          <span>{waiting} waiting</span>
          {failure.value !== "" && <span class="error">{failure.value}</span>}
        </span>
        <nav class="head-links">
          {may("control") && (
            <a class="button primary" href="#/new">
              <Icon name="plus" /> New
            </a>
          )}
          {may("admin") && <a href="#/server">Server</a>}
        </nav>
      </header>
      {shown.length > 0 ? (
        <Lines
          count={shown.length}
          height={ROW}
          label="Sessions"
          focus={at}
          render={(index) => (
            <SessionRow
              key={shown[index]?.sessionId}
              info={shown[index] as SessionEntry}
              isChosen={index === at}
            />
          )}
        />
      ) : (
        isLoaded.value && <Empty />
      )}
      <AnswerDock />
    </main>
  );
}

function Empty(): JSX.Element {
  return (
    <div class="empty">
      <p>{query.value === "" ? "No sessions yet." : "No session matches."}</p>
      {query.value === "" && (
        <p class="muted">
          Press <kbd>n</kbd> for a new one, or run <code>sluice run "say hello"</code> in a terminal.
        </p>
      )}
    </div>
  );
}

function SessionRow({ info, isChosen }: { info: SessionEntry; isChosen: boolean }): JSX.Element {
  const [ask] = info.pendingActions;
  const tokens = (info.usage.input_tokens ?? 0) + (info.usage.output_tokens ?? 0);
  return (
    <div class={isChosen ? "session-row selected" : "session-row"} role="listitem">
      <Status status={info.paused ? "paused" : ask ? "waiting" : info.status} />
      <a class="session-link" href={`#/s/${encodeURIComponent(info.sessionId)}`}>
        <strong>{toLine(info.title ?? info.sessionId, 100)}</strong>
        <span class="muted">
          {ask
            ? `asks: ${toLine(describeAsk(ask.prompt, ask.input) ?? ask.prompt, 100)}`
            : toLine(info.words || info.directory || "nothing said yet", 140)}
        </span>
      </a>
      <span class="session-agent">
        {toLine(info.agent, 20)}
        {info.turns !== undefined && ` · ${info.turns}`}
      </span>
      <span class="session-cost" title={tokens > 0 ? `${toShort(tokens)} tokens` : undefined}>
        {/* Tokens without a price are those of a plan. */}
        {info.usage.cost_usd === undefined ? (tokens > 0 ? "plan" : "–") : toCost(info.usage)}
      </span>
      <time class="muted">{toAgo(info.updatedAt, Date.now())}</time>
      {ask && may("answer") && (
        <button aria-expanded={answering.value === info.sessionId} onClick={() => toggleAnswer(info)}>
          Answer <kbd>a</kbd>
        </button>
      )}
    </div>
  );
}

/** The request that is being answered, below the list: a row is too small for it. */
function AnswerDock(): JSX.Element | null {
  const info = asking();
  const [ask] = info?.pendingActions ?? [];
  if (!info || !ask) return null;
  return (
    <section
      class="ask ask-open ask-dock"
      aria-label={`Request of ${toLine(info.title ?? info.sessionId, 80)}`}
    >
      <header>
        <strong>{toLine(info.title ?? info.sessionId, 80)}</strong> asks:{" "}
        <span class="ask-prompt">{toLine(describeAsk(ask.prompt, ask.input) ?? ask.prompt, 400)}</span>
        <button onClick={() => (answering.value = undefined)}>
          Close <kbd>Esc</kbd>
        </button>
      </header>
      {ask.input !== undefined && (
        <Code text={JSON.stringify(ask.input, null, 2).slice(0, 4_000)} language="json" />
      )}
      <Answer session={info.sessionId} ask={{ ...ask, answered: false, input: "" }} />
    </section>
  );
}

/** The session whose request is being answered, while it waits. */
function asking(): SessionEntry | undefined {
  return sessions.value.find(
    ({ sessionId, pendingActions }) => sessionId === answering.value && pendingActions.length > 0,
  );
}

/** `a` opens the request of the chosen session; then the keys are those of a request. */
function answerKeys(info: SessionEntry | undefined): readonly Binding[] {
  if (answering.value === undefined)
    return [{ keys: "a", label: "answer", run: () => toggleAnswer(info?.pendingActions[0] && info) }];
  return [
    { keys: "y", label: "allow once", run: press("once") },
    { keys: "a", label: "allow always", run: press("always") },
    { keys: "n", label: "reject", run: press("reject") },
    { keys: "Escape", label: "close the request", inText: true, run: () => (answering.value = undefined) },
  ];
}

/** The key of an answer presses its button. */
function press(which: string): () => void {
  return () => document.querySelector<HTMLButtonElement>(`.ask-dock [data-answer=${which}]`)?.click();
}

function toggleAnswer(info: SessionEntry | undefined): void {
  answering.value = info && answering.value !== info.sessionId ? info.sessionId : undefined;
}

function matches({ sessionId, title, agent, directory, status, words }: SessionEntry): boolean {
  const wanted = query.value.toLowerCase();
  if (wanted === "") return true;
  return [sessionId, title, agent, directory, status, words].some((text) =>
    text?.toLowerCase().includes(wanted),
  );
}

/** Follows the live list while somebody can see it. Changes are drawn at most once per frame. */
function useSessions(): void {
  useEffect(() => {
    let closing = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = (): void => {
      clearTimeout(timer);
      if (document.visibilityState === "hidden") timer = setTimeout(() => closing.abort(), REST_AFTER_MS);
      else if (closing.signal.aborted) void follow((closing = new AbortController()).signal);
    };
    void follow(closing.signal);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
      closing.abort();
    };
  }, [me.value.session]);
}

async function follow(signal: AbortSignal): Promise<void> {
  const known = new Map<string, SessionEntry>();
  let named = new Set<string>();
  let isDue = false;
  let isWhole = false;
  const draw = (): void => {
    // The list is drawn when it is whole: each step of a long one would be sorted and drawn for nothing.
    if (isDue || !isWhole) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      sessions.value = toSorted([...known.values()]);
    });
  };
  const onCut = (): void => {
    named = new Set();
    failure.value = "reconnecting…";
  };
  try {
    for await (const frame of client.sessions.watch({ signal, onCut })) {
      if (frame.type === "session") {
        known.set(frame.data.sessionId, frame.data);
        named.add(frame.data.sessionId);
      }
      if (frame.type === "removed") known.delete(frame.data.sessionId);
      if (frame.type === "ready") {
        // A connection begins with the whole list: a session that it has not named is gone.
        for (const id of known.keys()) if (!named.has(id)) known.delete(id);
        if (failure.value !== "") void checkVersion();
        failure.value = "";
        isLoaded.value = true;
        isWhole = true;
      }
      draw();
    }
  } catch (error) {
    if (!signal.aborted) failure.value = wordsOf(error);
  }
}

function toSorted(all: SessionEntry[]): SessionEntry[] {
  return all.toSorted((a, b) => rank(a) - rank(b) || b.updatedAt - a.updatedAt);
}

/** A session that waits for somebody comes first. */
function rank({ pendingActions }: SessionEntry): number {
  return pendingActions.length > 0 ? 0 : 1;
}
