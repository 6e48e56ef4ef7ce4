import type { AGUIEvent } from "@ag-ui/core";
import type { SluiceEvent } from "../../contract/index.ts";
import { Projection } from "../shared/projection.ts";
import { needsSnapshot, toShared, toSnapshot } from "./interrupts.ts";
import { type AgUiState, isProtocolOne, type RunState, type Shared } from "./state.ts";

type Type = `${AGUIEvent["type"]}`;
/** The fields of an event as the official client declares them; the projection adds the timestamp. */
type Fields<T extends Type> = Omit<Extract<AGUIEvent, { type: T }>, "type" | "timestamp">;

/** One event of the log as AG-UI events, and the state after it. */
export class AgUiProjection extends Projection<AgUiState> {
  readonly events: object[] = [];
  readonly timestamp: number;
  #isLast = false;

  constructor(state: AgUiState, event: SluiceEvent) {
    super(state, event);
    this.timestamp = Date.parse(event.time);
  }

  get isLast(): boolean {
    return this.#isLast;
  }

  get thread(): string {
    return this.state.view.thread ?? this.event.session_id;
  }

  changeRun(change: Partial<RunState>): void {
    const { run } = this.state;
    if (run) this.change({ run: { ...run, ...change } });
  }

  /** Emits an event of the open run; starts a run if none is open. */
  emit<T extends Type>(type: T, fields: Fields<T>): void {
    this.begin();
    if (this.event.source === "agent") this.nameSession();
    this.#push(type, fields);
  }

  custom(name: string, value: unknown, fields: { metadata?: Record<string, unknown> } = {}): void {
    this.emit("CUSTOM", { name, value, ...fields });
  }

  /** Starts a run unless one is open. */
  begin(): void {
    const { run, runs, next, turn, view, held } = this.state;
    if (run) return;
    // A run that no AG-UI client started is named after its turn.
    const unnamed = runs === 0 ? (turn ?? "run") : `${turn ?? "run"}.${runs + 1}`;
    const id = next?.runId ?? unnamed;
    const protocol = view.protocol ?? next?.protocol;
    this.change({
      run: { id, named: false, subagents: {}, usage: {}, ...(protocol === undefined ? {} : { protocol }) },
      runs: runs + 1,
      next: null,
      held: [],
      ...(next?.state ? { clientState: next.state } : {}),
    });
    this.#push("RUN_STARTED", {
      threadId: this.thread,
      runId: id,
      ...(isProtocolOne({ protocol }) ? { protocolVersion: "1.0" } : {}),
      ...(next?.parentRunId === undefined ? {} : { parentRunId: next.parentRunId }),
    });
    if (needsSnapshot(this.state, next?.state)) this.snapshot("running");
    for (const event of held) this.#add(event);
  }

  /** Emits the whole shared state; later changes are emitted as deltas. */
  snapshot(status: Shared["status"]): void {
    const shared = toShared(this.state, status);
    this.change({ shared });
    this.#push("STATE_SNAPSHOT", { snapshot: toSnapshot(this.state, shared) });
  }

  /** Emits the agent's session id once per run, as soon as it is known: a resumed agent may have a new one. */
  nameSession(): void {
    const { run, agent } = this.state;
    const { native_session_id: sessionId } = this.event;
    if (!run || run.named || sessionId === undefined) return;
    this.changeRun({ named: true });
    this.#push("CUSTOM", { name: `${toHarnessName(agent ?? "agent")}.session-id`, value: { sessionId } });
  }

  /** Emits the terminal event of the run. */
  end<T extends "RUN_FINISHED" | "RUN_ERROR">(type: T, fields: Fields<T>): void {
    this.begin();
    this.nameSession();
    this.#push(type, fields);
    const { run, view } = this.state;
    if (run?.id === view.run) this.#isLast = true;
    if (view.until !== undefined && this.event.sequence >= view.until) this.#isLast = true;
    this.change({ run: null });
  }

  /** Keeps an event for the start of the next run. */
  hold<T extends Type>(type: T, fields: Fields<T>): void {
    this.change({ held: [...this.state.held, { type, ...fields, timestamp: this.timestamp }] });
  }

  #push<T extends Type>(type: T, fields: Fields<T>): void {
    this.#add({ type, ...fields, timestamp: this.timestamp });
  }

  #add(event: object): void {
    const { run, view } = this.state;
    if (view.run === undefined || view.run === run?.id) this.events.push(event);
  }
}

/** Agents that clients know by another name. */
const NAMES: Readonly<Record<string, string>> = { claude: "claude-code", grok: "grok-build" };
const AGENTS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(NAMES).map(([agent, name]) => [name, agent]),
);

function toHarnessName(agent: string): string {
  return Object.hasOwn(NAMES, agent) ? (NAMES[agent] as string) : agent;
}

/** The agent's id from either of its names. */
export function toAgentId(name: string): string {
  return Object.hasOwn(AGENTS, name) ? (AGENTS[name] as string) : name;
}
