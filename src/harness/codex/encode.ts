import type { ContentPart, SpoolLine } from "../../contract/index.ts";
import { fromPartText, partText } from "../content-part.ts";
import { isRecord, parseObject, toFields, toRecords } from "../fields.ts";
import type { HarnessCommand } from "../port.ts";
import { toPermission } from "../recording.ts";
import { type Params, parseRpc, type RpcId } from "../rpc.ts";
import { emptyTranscript, findAsk, own, withoutAsk } from "../transcript.ts";
import { fromAnswer, permissionLine, questionLine, toImage, toolLine } from "./answers.ts";
import { type AskOfCodex, type CodexState, toLine } from "./state.ts";

/** The lines that carry a command to Codex. A request's id names its purpose, so that a recording can be read. */
export function encode(state: CodexState, command: HarnessCommand): readonly string[] | undefined | "later" {
  switch (command.type) {
    case "prompt":
      return prompt(state, command.inputId, command.content);
    case "steer":
      return steer(state, `steer:${command.inputId}`, toInput(command.content));
    case "interrupt":
      return interrupt(state);
    case "retry":
      return state.halted ? [startTurn(state, `retry:${state.transcript.count}`, [])] : undefined;
    case "permission":
      return permit(state, command);
    case "question":
      return answerAsk(state, command.id, (ask) => questionLine(ask, command.answers));
    case "tool":
      return answerAsk(state, command.id, (ask) => toolLine(ask, command.content, command.isError));
  }
}

export function greet(): readonly string[] {
  const clientInfo = { name: "sluice", title: "sluice", version: "1" };
  const params = { clientInfo, capabilities: { experimentalApi: true } };
  return [toLine({ id: "initialize", method: "initialize", params })];
}

/** A request without effect. Its response ends our turn if Codex has no turn to end. */
export const NO_OP = "thread/loaded/list";

const COMPACT = "/compact";

function prompt(
  state: CodexState,
  inputId: string,
  content: readonly ContentPart[],
): readonly string[] | "later" {
  if (state.thread === undefined && state.broken === undefined) return "later";
  const [only] = content.length === 1 ? content : [];
  if (only?.type === "text" && only.text === COMPACT) {
    const params = { threadId: threadOf(state) };
    return [toLine({ id: `turn:${inputId}`, method: "thread/compact/start", params })];
  }
  return [startTurn(state, `turn:${inputId}`, toInput(content), state.opening.plans ? "plan" : undefined)];
}

function startTurn(
  state: CodexState,
  id: string,
  input: readonly Params[],
  mode?: "plan" | "default",
): string {
  const { plans, effort, params, amended } = state.opening;
  const settings = {
    model: state.model ?? "",
    reasoning_effort: effort,
    developer_instructions: mode === undefined ? (amended ?? null) : null,
  };
  const hasSettings = mode !== undefined || amended !== undefined;
  // A plan may only read files; its implementation may write them.
  const isReleased = mode === "default" && plans && params["sandbox"] === "read-only";
  return toLine({
    id,
    method: "turn/start",
    params: {
      threadId: threadOf(state),
      input,
      collaborationMode: hasSettings ? { mode: mode ?? "default", settings } : undefined,
      sandboxPolicy: isReleased ? WRITING : undefined,
    },
  });
}

const WRITING = {
  type: "workspaceWrite",
  writableRoots: [],
  networkAccess: false,
  excludeTmpdirEnvVar: false,
  excludeSlashTmp: false,
};

/** The conversation's id. Without an open conversation the request is sent all the same: its refusal ends the turn. */
function threadOf({ thread, opening }: CodexState): unknown {
  return thread ?? opening.params["threadId"] ?? "00000000-0000-0000-0000-000000000000";
}

function steer(state: CodexState, id: string, input: readonly Params[]): readonly string[] | "later" {
  const { thread, turn, prompted } = state;
  if (thread === undefined || turn === undefined || !prompted) return "later";
  return [toLine({ id, method: "turn/steer", params: { threadId: thread, expectedTurnId: turn, input } })];
}

/** Stops the conversation's turn, and its sub-agents. */
function interrupt(state: CodexState): readonly string[] | "later" {
  const { thread, turn, prompted } = state;
  if (state.halted || Object.values(state.transcript.asks).some((ask) => ask.kind === "plan")) {
    return [toLine({ id: "halt:", method: NO_OP, params: {} })];
  }
  if (turn === undefined) return prompted ? "later" : [];
  const running = Object.entries(state.agents).flatMap(([agent, { turn }]) =>
    turn === undefined ? [] : [{ agent, turn }],
  );
  return [interruptLine(thread ?? "", turn), ...running.map(({ agent, turn }) => interruptLine(agent, turn))];
}

function interruptLine(threadId: string, turnId: string): string {
  return toLine({ id: `interrupt:${turnId}`, method: "turn/interrupt", params: { threadId, turnId } });
}

function permit(
  state: CodexState,
  command: Extract<HarnessCommand, { type: "permission" }>,
): readonly string[] {
  const ask = own(state.transcript.asks, command.id);
  if (ask === undefined) return [];
  if (ask.kind === "plan") return [planLine(state, command)];
  const line = permissionLine(ask, command);
  if (command.message === undefined || command.reply !== "reject") return [line];
  // A refusal has no field for a message, so the message follows into the same turn.
  const turn = ask.thread === state.thread ? state.turn : own(state.agents, ask.thread)?.turn;
  if (turn === undefined) return [line];
  const input = toInput([{ type: "text", text: command.message }]);
  const params = { threadId: ask.thread, expectedTurnId: turn, input };
  return [line, toLine({ id: `words:${command.id}`, method: "turn/steer", params })];
}

/** The line for the decision on a plan. Codex's own client sends the same text for an approved plan. */
function planLine(
  state: CodexState,
  { id, reply, message }: Extract<HarnessCommand, { type: "permission" }>,
): string {
  const name = `plan:${reply}:${id}`;
  if (reply !== "reject")
    return startTurn(state, name, toInput([{ type: "text", text: "Implement the plan." }]), "default");
  if (message === undefined) return toLine({ id: name, method: NO_OP, params: {} });
  return startTurn(state, name, toInput([{ type: "text", text: message }]), "plan");
}

function answerAsk(state: CodexState, id: string, render: (ask: AskOfCodex) => string): readonly string[] {
  const ask = own(state.transcript.asks, id);
  return ask === undefined || ask.kind === "plan" ? [] : [render(ask)];
}

/** A message in Codex's form: images by their bytes or their path, other files by name. */
function toInput(content: readonly ContentPart[]): readonly Params[] {
  return content.map((part) => {
    if (part.type === "image") {
      return part.path.startsWith("data:")
        ? { type: "image", url: part.path }
        : { type: "localImage", path: part.path };
    }
    return { type: "text", text: partText(part), text_elements: [] };
  });
}

/** The inverse of `toInput`. */
function fromInput(input: unknown): ContentPart[] {
  return toRecords(input).flatMap((part): ContentPart[] => {
    const { type, text, url, path } = part;
    if (type === "image" && typeof url === "string") return [toImage(url)];
    if (type === "localImage" && typeof path === "string") return [{ type: "image", path }];
    if (type !== "text" || typeof text !== "string") return [];
    return [fromPartText(text)];
  });
}

/** The state after a line to Codex. */
export function noteSent(state: CodexState, line: SpoolLine): CodexState {
  const message = parseRpc(line);
  if (message === undefined || message.kind === "notification") return state;
  if (message.kind !== "request") return noteAnswer(state, message.id);
  const { id, method, params } = message;
  const noted: CodexState = {
    ...state,
    driven: state.driven || id === "initialize",
    requests: { ...state.requests, [String(id)]: method },
  };
  const [purpose, reply, ask] = String(id).split(":");
  const decided = purpose === "plan" ? noteDecision(noted, ask ?? "", reply !== "reject") : noted;
  if (method !== "turn/start" && method !== "thread/compact/start") return decided;
  const compacting = method === "thread/compact/start";
  return { ...noteTurn(decided, purpose ?? "", params), compacting };
}

/** Forgets an ask that was answered. */
function noteAnswer(state: CodexState, id: RpcId): CodexState {
  const found = findAskOfCodex(state, id);
  return found ? withoutAsk(state, found[0]) : state;
}

function noteDecision(state: CodexState, id: string, approved: boolean): CodexState {
  const ask = own(state.transcript.asks, id);
  return ask?.kind === "plan" ? { ...withoutAsk(state, id), decided: { call: ask.call, approved } } : state;
}

/** The state after the start of a turn of Codex. A retry, or a decision on a plan, continues the engine's turn. */
function noteTurn(state: CodexState, purpose: string, params: Params): CodexState {
  const { plan: _, ...next } = state;
  const mode = isRecord(params["collaborationMode"]) ? params["collaborationMode"]["mode"] : undefined;
  const opening = mode === undefined ? state.opening : { ...state.opening, plans: mode === "plan" };
  // The engine has already ended the turn before this prompt and closed its items.
  const isLeft = state.halted && purpose !== "retry";
  const { prefix, count } = state.transcript;
  const transcript = isLeft ? { ...emptyTranscript<never>(prefix), count } : state.transcript;
  return { ...next, opening, transcript, prompted: true, halted: false };
}

function findAskOfCodex({ transcript }: CodexState, id: RpcId): [id: string, ask: AskOfCodex] | undefined {
  const found = findAsk(transcript, (ask) => ask.kind !== "plan" && ask.id === id);
  return found as [string, AskOfCodex] | undefined;
}

/** The command of a line to Codex: the inverse of `encode`. */
export function toCommand(state: CodexState, line: SpoolLine): HarnessCommand | undefined {
  if (line.dir === "meta") return fromArguments(line);
  if (line.dir !== "in") return undefined;
  const message = parseRpc(line);
  if (message?.kind === "request") return fromRequest(state, message.id, message.method, message.params);
  if (message?.kind !== "result") return undefined;
  const found = findAskOfCodex(state, message.id);
  return found && fromAnswer(...found, toFields(message.result));
}

/** `codex exec … PROMPT`: the prompt is the last argument. */
function fromArguments(line: SpoolLine): HarnessCommand | undefined {
  const value = parseObject(line);
  const argv = typeof value === "string" || !Array.isArray(value["argv"]) ? [] : value["argv"].map(String);
  const text = argv.at(-1);
  if (argv[1] !== "exec" || argv.length < 3 || text === undefined || text.startsWith("-")) return undefined;
  return { type: "prompt", inputId: "argv", content: [{ type: "text", text }] };
}

function fromRequest(
  state: CodexState,
  id: RpcId,
  method: string,
  params: Params,
): HarnessCommand | undefined {
  const [purpose, ...rest] = String(id).split(":");
  if (purpose === "words") return undefined;
  if (purpose === "halt") return { type: "interrupt" };
  if (purpose === "retry") return { type: "retry" };
  if (purpose === "plan") return fromPlanRequest(state, rest, params);
  const inputId = rest.length === 0 ? String(id) : rest.join(":");
  switch (method) {
    case "turn/start":
      return { type: "prompt", inputId, content: fromInput(params["input"]) };
    case "thread/compact/start":
      return { type: "prompt", inputId, content: [{ type: "text", text: COMPACT }] };
    case "turn/steer":
      return { type: "steer", inputId, content: fromInput(params["input"]) };
    case "turn/interrupt":
      return params["threadId"] === state.thread ? { type: "interrupt" } : undefined;
    default:
      return undefined;
  }
}

function fromPlanRequest(
  state: CodexState,
  [reply, ...rest]: readonly string[],
  params: Params,
): HarnessCommand | undefined {
  const id = rest.join(":");
  const [words] = reply === "reject" ? fromInput(params["input"]) : [];
  const message = words?.type === "text" ? words.text : undefined;
  return toPermission(own(state.transcript.asks, id) && id, { reply, message });
}
