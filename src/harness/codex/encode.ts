import type { ContentPart } from "../../contract/index.ts";
import type { HarnessCommand } from "../port.ts";
import { own } from "../transcript.ts";
import { isRecord } from "../fields.ts";
import type { Params } from "../rpc.ts";
import { toLine, type AskOfCodex, type CodexState } from "./state.ts";
import { fromPartText, partText } from "../part-text.ts";

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
      return answered(state, command.id, (ask) => questionLine(ask, command.answers));
    case "tool":
      return answered(state, command.id, (ask) => toolLine(ask, command.content, command.isError));
  }
}

/** The first line. */
export function greet(): readonly string[] {
  const clientInfo = { name: "sluice", title: "sluice", version: "1" };
  return [
    toLine({
      id: "initialize",
      method: "initialize",
      params: { clientInfo, capabilities: { experimentalApi: true } },
    }),
  ];
}

/** A request without effect. Its response ends our turn where Codex has none to end. */
export const NO_OP = "thread/loaded/list";

export const COMPACT = "/compact";

function prompt(
  state: CodexState,
  inputId: string,
  content: readonly ContentPart[],
): readonly string[] | "later" {
  if (state.thread === undefined && state.broken === undefined) return "later";
  const [only] = content.length === 1 ? content : [];
  if (only?.type === "text" && only.text === COMPACT) {
    return [
      toLine({
        id: `turn:${inputId}`,
        method: "thread/compact/start",
        params: { threadId: threadOf(state) },
      }),
    ];
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
  const settings = { model: state.model ?? "", reasoning_effort: effort, developer_instructions: null };
  // Planning could only read; the implementation may write.
  const isReleased = mode === "default" && plans && params["sandbox"] === "read-only";
  return toLine({
    id,
    method: "turn/start",
    params: {
      threadId: threadOf(state),
      input,
      ...(mode === undefined ? {} : { collaborationMode: { mode, settings } }),
      ...(mode === undefined && amended !== undefined
        ? {
            collaborationMode: {
              mode: "default",
              settings: { ...settings, developer_instructions: amended },
            },
          }
        : {}),
      ...(isReleased ? { sandboxPolicy: WRITING } : {}),
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

/** Without an open conversation the request still goes out: its refusal ends the turn. */
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

/** The text of Codex's own client for an approved plan. */
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

function answered(state: CodexState, id: string, toLine: (ask: AskOfCodex) => string): readonly string[] {
  const ask = own(state.transcript.asks, id);
  return ask === undefined || ask.kind === "plan" ? [] : [toLine(ask)];
}

type Permission = Extract<HarnessCommand, { type: "permission" }>;

/** The response to a permission request. */
export function permissionLine(ask: AskOfCodex, { reply, message }: Permission): string {
  // Codex reads only the decision. The message is kept for readers of the transcript.
  const words = message === undefined ? {} : { message };
  switch (ask.kind) {
    case "elicitation": {
      const action = reply === "reject" ? "decline" : "accept";
      const content = reply === "reject" ? null : {};
      const meta = reply === "always" ? { persist: "session" } : null;
      return respond(ask, { action, content, _meta: meta, ...words });
    }
    case "grant": {
      const permissions = reply === "reject" ? {} : ask.permissions;
      return respond(ask, { permissions, scope: reply === "always" ? "session" : "turn", ...words });
    }
    default:
      return respond(ask, { decision: DECISIONS[reply], ...words });
  }
}

export const DECISIONS = { once: "accept", always: "acceptForSession", reject: "decline" } as const;

/** The response to a question. No answer is a refusal. */
export function questionLine(ask: AskOfCodex, answers: readonly (readonly string[])[] | undefined): string {
  if (ask.kind === "form") {
    if (answers === undefined) return respond(ask, { action: "decline", content: null, _meta: null });
    const values = ask.fields.map(({ name, type }, index) => [name, toValue(type, answers[index] ?? [])]);
    return respond(ask, { action: "accept", content: Object.fromEntries(values), _meta: null });
  }
  const names = ask.kind === "question" ? ask.questions : [];
  const given = (answers ?? []).flatMap((answer, index) => {
    const name = names[index];
    return name === undefined ? [] : [[name, { answers: answer }]];
  });
  return respond(ask, { answers: Object.fromEntries(given) });
}

export function toolLine(ask: AskOfCodex, content: readonly ContentPart[], isError: boolean): string {
  return respond(ask, { contentItems: content.map(toContentItem), success: !isError });
}

/** The refusal of any request. */
export function declineLine(ask: AskOfCodex): string {
  if (ask.kind === "tool") return toolLine(ask, [{ type: "text", text: "Nobody runs this tool now." }], true);
  if (ask.kind === "question" || ask.kind === "form") return questionLine(ask, undefined);
  return permissionLine(ask, { type: "permission", id: "", reply: "reject" });
}

function respond({ id }: AskOfCodex, result: Readonly<Record<string, unknown>>): string {
  return toLine({ id, result });
}

function toValue(type: string, answer: readonly string[]): unknown {
  const [first = ""] = answer;
  if (type === "array") return answer;
  if (type === "boolean") return /^(true|yes|y|1)$/i.test(first);
  const number = Number(first);
  return (type === "number" || type === "integer") && Number.isFinite(number) ? number : first;
}

function toContentItem(part: ContentPart): Readonly<Record<string, unknown>> {
  if (part.type === "image" && part.path.startsWith("data:"))
    return { type: "inputImage", imageUrl: part.path };
  const text = part.type === "text" ? part.text : JSON.stringify(part);
  return { type: "inputText", text };
}

/** A message in Codex's form: images by their bytes or their path, other files by name. */
export function toInput(content: readonly ContentPart[]): readonly Readonly<Record<string, unknown>>[] {
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
export function fromInput(input: unknown): ContentPart[] {
  return (Array.isArray(input) ? input : []).filter(isRecord).flatMap((part): ContentPart[] => {
    const { type, text, url, path } = part;
    if (type === "image" && typeof url === "string") return [toImage(url)];
    if (type === "localImage" && typeof path === "string") return [{ type: "image", path }];
    if (type !== "text" || typeof text !== "string") return [];
    return [fromPartText(text)];
  });
}

function toImage(url: string): ContentPart {
  const mime = /^data:([^;,]+)/.exec(url)?.[1];
  return { type: "image", path: url, ...(mime === undefined ? {} : { mime }) };
}
