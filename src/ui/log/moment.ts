import type { ContentPart, SessionInfo, SluiceEvent, Usage } from "../../contract/index.ts";
import type { Moment } from "./protocol.ts";

/** The state before the first event. */
export function emptyMoment(): Moment {
  return {
    status: "idle",
    turnId: null,
    turnStartedAt: null,
    pending: [],
    queue: [],
    plan: [],
    usage: {},
    turnUsage: {},
    paused: false,
    title: null,
    model: null,
    sandbox: null,
    nativeSessionId: null,
    checkpoint: null,
    interrupted: false,
    command: null,
    ended: null,
    deleted: false,
  };
}

/** The state at the head, as the server tells it. */
export function fromInfo(info: SessionInfo): Moment {
  const status = info.status === "starting" ? "running" : info.status;
  return {
    ...emptyMoment(),
    status,
    turnId: info.turnId,
    pending: [...info.pendingActions],
    usage: { ...info.usage },
    paused: info.paused,
    title: info.title,
    model: info.model,
    sandbox: info.sandbox,
    nativeSessionId: info.nativeSessionId,
    ended: info.ended ? "ended" : null,
  };
}

/** The agent, as the log names it; a server knows it from the session. */
export function findAgent(events: readonly string[]): string {
  for (const text of events) {
    const event = JSON.parse(text) as SluiceEvent;
    if (event.type === "process.started") return event.data.harness;
    const { agent } = (event.type === "session.started" ? (event.data.metadata ?? {}) : {}) as {
      agent?: unknown;
    };
    if (typeof agent === "string") return agent;
  }
  return "";
}

/** Applies one event, in place. The engine's own fold (sessions/fold) gives the same values; a test compares both. */
export function applyToMoment(moment: Moment, event: SluiceEvent): void {
  if (event.native_session_id !== undefined) moment.nativeSessionId = event.native_session_id;
  switch (event.type) {
    case "input.accepted": {
      const { input_id: inputId, turn_id: turnId, content } = event.data;
      if (moment.turnId === turnId) return;
      moment.queue.push({ inputId, turnId, text: toText(content), sequence: event.sequence });
      return;
    }
    case "input.replaced":
      for (const input of moment.queue)
        if (input.inputId === event.data.input_id) input.text = toText(event.data.content);
      return;
    case "input.withdrawn":
      moment.queue = moment.queue.filter(({ inputId }) => inputId !== event.data.input_id);
      return;
    case "input.reordered": {
      const order = event.data.input_ids;
      moment.queue.sort((a, b) => order.indexOf(a.inputId) - order.indexOf(b.inputId));
      return;
    }
    case "turn.started": {
      const ids = event.data.input_ids;
      moment.queue = moment.queue.filter(({ inputId }) => !ids.includes(inputId));
      moment.turnId = event.data.turn_id;
      moment.turnStartedAt = Date.parse(event.time);
      moment.turnUsage = {};
      moment.pending = [];
      moment.interrupted = false;
      return setStatus(moment, "running");
    }
    case "turn.waiting":
      return setStatus(moment, event.data.actions.length > 0 ? "waiting" : "running");
    case "turn.retrying":
      return setStatus(moment, "retrying");
    case "turn.resumed":
      return setStatus(moment, "running");
    case "turn.ended":
      moment.turnId = null;
      moment.turnStartedAt = null;
      moment.pending = [];
      moment.interrupted = false;
      return setStatus(moment, "idle");
    case "interrupt.requested":
      if (moment.turnId !== null) moment.interrupted = true;
      return;
    case "permission.requested": {
      const { permission_id: id, action: prompt, metadata: input } = event.data;
      return ask(moment, event, { kind: "permission", id, prompt, ...(input !== undefined && { input }) });
    }
    case "question.requested": {
      const { question_id: id, prompt, options } = event.data;
      return ask(moment, event, { kind: "question", id, prompt, options });
    }
    case "tool.requested": {
      const { request_id: id, name: prompt, input } = event.data;
      return ask(moment, event, { kind: "tool", id, prompt, ...(input !== undefined && { input }) });
    }
    case "permission.resolved":
      return answer(moment, event.data.permission_id);
    case "question.resolved":
      return answer(moment, event.data.question_id);
    case "tool.resolved":
      return answer(moment, event.data.request_id);
    case "plan.updated":
      if (event.parent_id === undefined) moment.plan = event.data.entries;
      return;
    case "model.ended":
      if (event.data.usage) {
        addUsage(moment.usage, event.data.usage);
        if (moment.turnId !== null) addUsage(moment.turnUsage, event.data.usage);
      }
      return;
    case "session.updated": {
      const { title, model, native_session_id: native, settings } = event.data;
      if (title !== undefined) moment.title = title;
      if (model !== undefined) moment.model = model;
      if (native !== undefined) moment.nativeSessionId = native;
      const chosen = (settings as { model?: string } | undefined)?.model;
      if (chosen !== undefined) moment.model = chosen;
      return;
    }
    case "session.ended":
      moment.ended = event.data.reason;
      moment.status = "ended";
      return;
    case "session.deleted":
      moment.deleted = true;
      return;
    case "sandbox.boot":
    case "sandbox.connected":
      moment.sandbox = event.data.provider;
      return;
    case "sandbox.killed":
    case "sandbox.error":
      moment.sandbox = null;
      moment.paused = false;
      return;
    case "sandbox.paused":
      moment.paused = true;
      return;
    case "sandbox.resumed":
      moment.paused = false;
      return;
    case "checkpoint.created":
    case "checkpoint.restored":
      moment.checkpoint = { id: event.data.checkpoint_id, sequence: event.sequence };
      return;
    case "command.started":
      moment.command = event.data.command;
      return;
    case "command.ended":
      moment.command = null;
      return;
    default:
  }
}

export function copyMoment(moment: Moment): Moment {
  return {
    ...moment,
    pending: [...moment.pending],
    queue: moment.queue.map((input) => ({ ...input })),
    usage: { ...moment.usage },
    turnUsage: { ...moment.turnUsage },
  };
}

type Asked = Omit<Moment["pending"][number], "turnId" | "sequence">;

/** A request outside of a turn waits for nobody, as in the engine. */
function ask(moment: Moment, { sequence }: SluiceEvent, asked: Asked): void {
  if (moment.turnId !== null) moment.pending.push({ ...asked, turnId: moment.turnId, sequence });
}

function answer(moment: Moment, id: string): void {
  moment.pending = moment.pending.filter((pending) => pending.id !== id);
}

/** An ended session stays ended, whatever its log still says. */
function setStatus(moment: Moment, status: Moment["status"]): void {
  if (moment.ended === null) moment.status = status;
}

export function addUsage(total: Usage, more: Usage): void {
  for (const [kind, amount] of Object.entries(more) as [keyof Usage, number | undefined][])
    if (amount !== undefined) total[kind] = (total[kind] ?? 0) + amount;
}

/** The words of a content, for one line. */
export function toText(content: readonly ContentPart[]): string {
  return content
    .map((part) => {
      if (part.type === "text" || part.type === "reasoning") return part.text;
      if (part.type === "tool_result") return part.output;
      if (part.type === "image") return "[image]";
      if (part.type === "file_ref") return part.path;
      if (part.type === "status") return [part.label, part.detail].filter(Boolean).join(": ");
      if (part.type === "json") return JSON.stringify(part.json);
      return "";
    })
    .filter(Boolean)
    .join("\n");
}
