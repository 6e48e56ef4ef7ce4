import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { announce } from "../core/announce.ts";
import { checkVersion, client, may } from "../core/api.ts";
import { toClock, toCost, toCount, toLine, toSpan, toTokens } from "../core/format.ts";
import { lazy, type LazyScreen } from "../core/lazy.tsx";
import { go, type Route, TABS, type Tab, toHash } from "../core/route.ts";
import { isFile, SessionView } from "../core/session-view.ts";
import { MAX_REQUEST } from "../log/protocol.ts";
import { Icon } from "../parts/icon.tsx";
import { Status } from "../parts/status.tsx";
import { Guard } from "../parts/guard.tsx";
import { Ask } from "../transcript/ask.tsx";
import { Bar } from "../transcript/bar.tsx";
import { Composer } from "../transcript/composer.tsx";
import { TranscriptList } from "../transcript/list.tsx";
import { PlanList } from "../transcript/rows.tsx";
import { Queue } from "./queue.tsx";
import { Actions } from "./session-actions.tsx";
import { useSessionKeys } from "./session-keys.ts";
import { ProblemPage } from "./problem.tsx";

const SCREENS: Readonly<Record<Exclude<Tab, "transcript">, LazyScreen>> = {
  timeline: lazy(async () => (await import("../panes/timeline/timeline.tsx")).Timeline),
  files: lazy(async () => (await import("../panes/files/files.tsx")).Files),
  terminal: lazy(async () => (await import("../panes/terminal/terminal.tsx")).Terminal),
  frames: lazy(async () => (await import("./frames.tsx")).Frames),
  usage: lazy(async () => (await import("../panes/usage/usage.tsx")).UsagePane),
};

/** One session: its turns, the chosen tab and the bar. */
export function SessionScreen({ route }: { route: Route & { name: "session" } }): JSX.Element {
  const view = useMemo(() => new SessionView(route.id), [route.id]);
  useEffect(() => () => view.close(), [view]);
  useEffect(() => {
    view.at.value = route.event ?? null;
  }, [view, route.event]);
  useAnnouncements(view);
  useVersion(view);
  const [isSideOpen, setSideOpen] = useState(false);
  useSessionKeys(view, route);
  const failure = view.failure.value;
  if (failure) return <ProblemPage {...failure} />;
  const screen = route.event === undefined ? undefined : view.screen.value;
  if (screen && route.event !== undefined && screen.complete && route.event > screen.head)
    return (
      <ProblemPage
        code="not_found"
        title={`There is no event ${toCount(route.event)}`}
        detail={`The log of ${route.id} has ${toCount(screen.head)} events. The link may be of another session.`}
      />
    );
  const Screen = route.tab === "transcript" ? undefined : SCREENS[route.tab];
  return (
    <div class="session">
      <Head view={view} route={route} isSideOpen={isSideOpen} onSide={() => setSideOpen(!isSideOpen)} />
      <div class={isSideOpen ? "session-body side-open" : "session-body"}>
        <Side view={view} onChosen={() => setSideOpen(false)} />
        <main class="pane" id="main">
          <Past view={view} />
          {Screen && <OpenAsk view={view} />}
          <Guard key={route.tab} label="This tab">
            {Screen ? <Screen view={view} /> : <TranscriptList view={view} />}
          </Guard>
          {!Screen && <Composer view={view} />}
        </main>
      </div>
      <Bar view={view} />
    </div>
  );
}

/** The oldest open request, in a tab that does not show the transcript. */
function OpenAsk({ view }: { view: SessionView }): JSX.Element | null {
  const [first] = view.moment.value?.pending ?? [];
  if (!first || view.at.value !== null) return null;
  const { kind, id, prompt, options, input, sequence } = first;
  const time = view.screen.peek()?.headTime ?? 0;
  const shown = input === undefined ? {} : { input: JSON.stringify(input, null, 2).slice(0, MAX_REQUEST) };
  return (
    <div class="ask-dock" data-sequence={sequence}>
      <Ask view={view} time={time} ask={{ kind, id, prompt, options, ...shown, answered: false }} />
    </div>
  );
}

function Head(props: {
  view: SessionView;
  route: Route & { name: "session" };
  isSideOpen: boolean;
  onSide(): void;
}): JSX.Element {
  const { view, route } = props;
  const moment = view.moment.value;
  const about = view.about.value;
  const title = moment?.title ?? about?.title ?? route.id;
  const tabs = useRef<HTMLElement>(null);
  useEffect(() => {
    const show = (): void =>
      tabs.current
        ?.querySelector("[aria-selected=true]")
        ?.scrollIntoView({ block: "nearest", inline: "nearest" });
    show();
    addEventListener("resize", show);
    return () => removeEventListener("resize", show);
  }, [route.tab]);
  return (
    <header class="head">
      <a class="home" href="#/" aria-label="All sessions">
        <Icon name="back" />
      </a>
      <h1>{toLine(title, 80)}</h1>
      <span class="facts">
        {moment && <Status status={moment.paused ? "paused" : moment.status} />}
        {about && about.agent !== "" && <span>{toLine(about.agent, 30)}</span>}
        {moment?.model && <span>{toLine(moment.model, 40)}</span>}
        {moment?.sandbox && <span>{moment.sandbox}</span>}
        {moment && toTokens(moment.usage) && <span>{toTokens(moment.usage)}</span>}
        {moment?.usage.cost_usd !== undefined && <span>{toCost(moment.usage)}</span>}
        <Origin session={view.id} />
      </span>
      <button class="side-toggle" aria-expanded={props.isSideOpen} onClick={props.onSide}>
        Turns
      </button>
      <nav class="tabs" ref={tabs} role="tablist" aria-label="Views of the session">
        {TABS.map((tab, index) => (
          <button
            key={tab}
            role="tab"
            aria-selected={route.tab === tab}
            title={`${tab} (${index + 1})`}
            onClick={() => go({ ...route, tab })}
          >
            {tab}
          </button>
        ))}
      </nav>
      <Actions view={view} />
    </header>
  );
}

/** The session that this one was forked from. */
function Origin({ session }: { session: string }): JSX.Element | null {
  const [fork, setFork] = useState<{ session: string } | undefined>(undefined);
  useEffect(() => {
    if (isFile()) return;
    const asked = new AbortController();
    client.sessions.spec(session, { signal: asked.signal }).then(
      (spec) => asked.signal.aborted || setFork(spec.fork),
      () => {},
    );
    return () => asked.abort();
  }, [session]);
  if (!fork) return null;
  return (
    <span>
      fork of{" "}
      <a href={toHash({ name: "session", id: fork.session, tab: "transcript" })}>
        {toLine(fork.session, 40)}
      </a>
    </span>
  );
}

function Side({ view, onChosen }: { view: SessionView; onChosen(): void }): JSX.Element {
  const turns = view.turns.value;
  const moment = view.moment.value;
  const current = view.turn.value;
  // In the past, a turn that came later has no state yet, and the one that ran has no end.
  const now = view.at.value === null ? Number.POSITIVE_INFINITY : (view.screen.value?.at ?? 0);
  useEffect(() => {
    document.querySelector(".turns .current")?.scrollIntoView({ block: "nearest" });
  }, [current?.id]);
  return (
    <aside class="side" aria-label="Turns">
      <h2>Turns</h2>
      <ol class="turns">
        {turns.slice(-300).map((turn) => (
          <li key={turn.id}>
            <button
              class={turn === current ? "turn current" : "turn"}
              aria-current={turn === current ? "true" : undefined}
              onClick={() => {
                // The newest turn is shown live, any other as it was at its end.
                view.seek(turn.last > 0 && turn !== turns.at(-1) ? turn.last : null);
                onChosen();
              }}
            >
              <span class="turn-index">{turn.index}</span>
              {turn.first > now ? (
                <span class="muted">later</span>
              ) : (
                <Status status={moment?.turnId === turn.id ? moment.status : turn.status} />
              )}
              <span class="muted">
                {turn.endedAt > 0 && turn.last <= now && toSpan(turn.endedAt - turn.startedAt)}
              </span>
              <span class="turn-title">{toLine(turn.title, 80)}</span>
            </button>
          </li>
        ))}
        {turns.length === 0 && <li class="muted">none yet</li>}
      </ol>
      {moment && moment.plan.length > 0 && (
        <>
          <h2>
            Plan {moment.plan.filter(({ status }) => status === "completed").length}/{moment.plan.length}
          </h2>
          <PlanList entries={moment.plan} />
        </>
      )}
      {moment && moment.queue.length > 0 && (
        <>
          <h2>Queue {moment.queue.length}</h2>
          <Queue view={view} queue={moment.queue} />
        </>
      )}
    </aside>
  );
}

/** Says that the past is shown, and how much came later. */
function Past({ view }: { view: SessionView }): JSX.Element | null {
  if (view.at.value === null) return null;
  const screen = view.screen.value;
  if (!screen) return null;
  const { checkpoint } = screen.moment;
  return (
    <div class="past" role="status">
      <p class="past-words">
        You see {toClock(screen.atTime)}; {toCount(screen.head - screen.at)} events later.
        {may("control") &&
          !isFile() &&
          (checkpoint
            ? ` A fork from here starts at ⚑ ${toCount(checkpoint.sequence)}${nameTurn(view, checkpoint.sequence)}; later edits are not in it.`
            : " A fork needs a checkpoint, and none lies before this moment. “Make a checkpoint” makes one of now.")}
      </p>
      <button onClick={() => view.seek(null)}>
        Back to live <kbd>Esc</kbd>
      </button>
    </div>
  );
}

/** Requests, ends and errors are said aloud; deltas never. */
function useAnnouncements(view: SessionView): void {
  const pending = view.moment.value?.pending ?? [];
  const last = view.turns.value.at(-1);
  const isLive = view.at.value === null;
  const error = view.marks.value.findLast(({ kind }) => kind === "error");
  const known = useRef(error?.sequence);
  useEffect(() => {
    const [first] = pending;
    if (isLive && first) announce(`The agent asks: ${toLine(first.prompt, 120)}`);
  }, [pending.length, isLive]);
  useEffect(() => {
    if (isLive && last && last.last > 0) announce(`Turn ${last.index} ended: ${last.status}`);
  }, [last?.last, isLive]);
  useEffect(() => {
    if (isLive && error && error.sequence !== known.current) announce(`Error: ${toLine(error.label, 120)}`);
    known.current = error?.sequence;
  }, [error?.sequence]);
}

/** A server that comes back may be another version, with another page. */
function useVersion(view: SessionView): void {
  const cuts = view.link.value?.cuts ?? 0;
  const isLive = view.link.value?.state === "live";
  useEffect(() => {
    if (cuts > 0 && isLive) void checkVersion();
  }, [cuts, isLive]);
}

/** The turn of an event, in words. */
function nameTurn(view: SessionView, sequence: number): string {
  const turn = view.turns.value.findLast(({ first }) => first <= sequence);
  return turn ? ` of turn ${turn.index}` : "";
}
