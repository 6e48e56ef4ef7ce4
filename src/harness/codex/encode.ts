import type { ContentPart } from "../../contract/index.ts";
import type { HarnessCommand } from "../port.ts";
import { own } from "../transcript.ts";
import { permissionLine, questionLine, toolLine } from "./answers.ts";
import { toInput } from "./input.ts";
import type { Params } from "../rpc.ts";
import { say } from "./reading.ts";
import { NOTHING } from "./responses.ts";
import type { AskOfCodex, CodexState } from "./state.ts";

/** The lines that carry a command to Codex. Our requests' ids say what they are for, so that they can be overheard. */
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

/** Said before anything else. */
export function greet(): readonly string[] {
  const clientInfo = { name: "sluice", title: "sluice", version: "1" };
  return [
    say({
      id: "initialize",
      method: "initialize",
      params: { clientInfo, capabilities: { experimentalApi: true } },
    }),
  ];
}

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
      say({ id: `turn:${inputId}`, method: "thread/compact/start", params: { threadId: threadOf(state) } }),
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
  // What could only read while it planned may now write.
  const isReleased = mode === "default" && plans && params["sandbox"] === "read-only";
  return say({
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

/** A conversation that could not be opened is asked for all the same: its refusal is what ends the turn. */
function threadOf({ thread, opening }: CodexState): unknown {
  return thread ?? opening.params["threadId"] ?? "00000000-0000-0000-0000-000000000000";
}

function steer(state: CodexState, id: string, input: readonly Params[]): readonly string[] | "later" {
  const { thread, turn, prompted } = state;
  if (thread === undefined || turn === undefined || !prompted) return "later";
  return [say({ id, method: "turn/steer", params: { threadId: thread, expectedTurnId: turn, input } })];
}

/** Stops the conversation's turn, and the sub-agents that it has started. */
function interrupt(state: CodexState): readonly string[] | "later" {
  const { thread, turn, prompted } = state;
  if (state.halted || Object.values(state.transcript.asks).some((ask) => ask.kind === "plan")) {
    return [say({ id: "halt:", method: NOTHING, params: {} })];
  }
  if (turn === undefined) return prompted ? "later" : [];
  const running = Object.entries(state.agents).flatMap(([agent, { turn }]) =>
    turn === undefined ? [] : [{ agent, turn }],
  );
  return [interruptLine(thread ?? "", turn), ...running.map(({ agent, turn }) => interruptLine(agent, turn))];
}

function interruptLine(threadId: string, turnId: string): string {
  return say({ id: `interrupt:${turnId}`, method: "turn/interrupt", params: { threadId, turnId } });
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
  // A refusal has no room for words: they follow as a message into the turn that was refused.
  const turn = ask.thread === state.thread ? state.turn : own(state.agents, ask.thread)?.turn;
  if (turn === undefined) return [line];
  const input = toInput([{ type: "text", text: command.message }]);
  const params = { threadId: ask.thread, expectedTurnId: turn, input };
  return [line, say({ id: `words:${command.id}`, method: "turn/steer", params })];
}

/** Codex's own client says the same words when somebody wants its plan carried out. */
function planLine(
  state: CodexState,
  { id, reply, message }: Extract<HarnessCommand, { type: "permission" }>,
): string {
  const name = `plan:${reply}:${id}`;
  if (reply !== "reject")
    return startTurn(state, name, toInput([{ type: "text", text: "Implement the plan." }]), "default");
  if (message === undefined) return say({ id: name, method: NOTHING, params: {} });
  return startTurn(state, name, toInput([{ type: "text", text: message }]), "plan");
}

function answered(state: CodexState, id: string, toLine: (ask: AskOfCodex) => string): readonly string[] {
  const ask = own(state.transcript.asks, id);
  return ask === undefined || ask.kind === "plan" ? [] : [toLine(ask)];
}
