import type { SluiceEvent } from "../../contract/index.ts";
import { toSessionIdEvent } from "./session-id.ts";
import { needsSnapshot, toShared, toSnapshot } from "./shared-state.ts";
import type { AgUiState, RunState, Shared } from "./state.ts";
import { speaksOne } from "./view.ts";

/** Tells one event of the log: the AG-UI events that it becomes, and what is open behind it. */
export class Teller {
  readonly event: SluiceEvent;
  readonly events: object[] = [];
  readonly timestamp: number;
  #state: AgUiState;
  #isLast = false;

  constructor(state: AgUiState, event: SluiceEvent) {
    this.event = event;
    this.timestamp = Date.parse(event.time);
    this.#state = state;
  }

  get state(): AgUiState {
    return this.#state;
  }

  get isLast(): boolean {
    return this.#isLast;
  }

  get thread(): string {
    return this.#state.view.thread ?? this.event.session_id;
  }

  change(change: Partial<AgUiState>): void {
    this.#state = { ...this.#state, ...change };
  }

  changeRun(change: Partial<RunState>): void {
    const { run } = this.#state;
    if (run) this.change({ run: { ...run, ...change } });
  }

  /** An event of the open run; a run begins with whatever has to be told first. */
  say(type: string, fields: object): void {
    this.begin();
    if (this.event.source === "agent") this.name();
    this.#push({ type, ...fields, timestamp: this.timestamp });
  }

  custom(name: string, value: unknown, fields: object = {}): void {
    this.say("CUSTOM", { name, value, ...fields });
  }

  begin(): void {
    const { run, runs, next, turn, view, held } = this.#state;
    if (run) return;
    // A run that no client of this dialect began is called by its turn.
    const own = runs === 0 ? (turn ?? "run") : `${turn ?? "run"}.${runs + 1}`;
    const id = next?.runId ?? own;
    const protocol = view.protocol ?? next?.protocol;
    this.change({
      run: { id, named: false, subagents: {}, usage: {}, ...(protocol === undefined ? {} : { protocol }) },
      runs: runs + 1,
      next: null,
      held: [],
      ...(next?.state ? { clientState: next.state } : {}),
    });
    this.#push({
      type: "RUN_STARTED",
      threadId: this.thread,
      runId: id,
      ...(speaksOne({ protocol }) ? { protocolVersion: "1.0" } : {}),
      ...(next?.parentRunId === undefined ? {} : { parentRunId: next.parentRunId }),
      timestamp: this.timestamp,
    });
    if (needsSnapshot(this.#state, next?.state)) this.snapshot("running");
    for (const event of held) this.#push(event);
  }

  /** The whole of the agent's state; from then on changes of it are told. */
  snapshot(status: Shared["status"]): void {
    const shared = toShared(this.#state, status);
    this.change({ shared });
    this.#push({
      type: "STATE_SNAPSHOT",
      snapshot: toSnapshot(this.#state, shared),
      timestamp: this.timestamp,
    });
  }

  /** Once in a run, as soon as it is sure: an agent that resumes may go on under another id. */
  name(): void {
    const { run, agent } = this.#state;
    const { native_session_id: sessionId } = this.event;
    if (!run || run.named || sessionId === undefined) return;
    this.changeRun({ named: true });
    this.#push({ ...toSessionIdEvent(agent, sessionId), timestamp: this.timestamp });
  }

  /** The terminal event; nothing of this run comes behind it. */
  end(type: "RUN_FINISHED" | "RUN_ERROR", fields: object): void {
    this.begin();
    this.name();
    this.#push({ type, ...fields, timestamp: this.timestamp });
    const { run, view } = this.#state;
    if (run?.id === view.run) this.#isLast = true;
    if (view.until !== undefined && this.event.sequence >= view.until) this.#isLast = true;
    this.change({ run: null });
  }

  /** What would be told now, had the turn a run. */
  hold(event: object): void {
    this.change({ held: [...this.#state.held, { ...event, timestamp: this.timestamp }] });
  }

  #push(event: object): void {
    const { run, view } = this.#state;
    if (view.run === undefined || view.run === run?.id) this.events.push(event);
  }
}
