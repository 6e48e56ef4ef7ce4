import { asText, defined, isRecord, toFields, toRecords } from "../fields.ts";
import { type Params, type RpcError, toRequest } from "../rpc.ts";
import { without } from "../transcript.ts";
import type { AcpReading, Setting } from "./dialect.ts";
import { toFailure } from "./failure.ts";
import type { AgentOffer, Wishes } from "./state.ts";
import { failTurn } from "./turns.ts";

/** The first line. Files and terminals are not offered, since the agent has its own. */
export function greet(): readonly string[] {
  const params = {
    protocolVersion: 1,
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    clientInfo: { name: "sluice", title: "sluice", version: "1" },
  };
  return [toRequest("initialize", "initialize", params)];
}

/** Whether a method belongs to the opening of a session. */
export function isHandshake(reading: AcpReading, method: string): boolean {
  return STEPS.has(method) || OPENING.has(method) || method === reading.dialect.fork?.method;
}

const STEPS = new Set([
  "initialize",
  "authenticate",
  "session/set_mode",
  "session/set_model",
  "session/set_config_option",
]);
const OPENING = new Set(["session/new", "session/load", "session/resume", "session/fork"]);

export function readHandshake(reading: AcpReading, method: string, result: unknown): void {
  const given = toFields(result);
  if (method === "initialize") return readOffer(reading, given);
  if (method === "authenticate") return open(reading);
  if (method === reading.dialect.fork?.method) return openFork(reading, reading.dialect.fork.session(given));
  if (OPENING.has(method)) return readOpened(reading, given);
  confirmSetting(reading);
}

export function failHandshake(reading: AcpReading, method: string, error: RpcError): void {
  if (OPENING.has(method) && error.code === AUTH_REQUIRED && tryAuth(reading)) return;
  reading.change({ phase: "failed", isReplaying: undefined });
  const failure = toFailure(error);
  const message = `the agent refused ${method}: ${failure.error.message}`;
  failTurn(reading, { error: { ...failure.error, message }, stopReason: "model_error" });
}

const AUTH_REQUIRED = -32000;

function readOffer(reading: AcpReading, result: Params): void {
  const capabilities = toFields(result["agentCapabilities"]);
  const sessions = toFields(capabilities["sessionCapabilities"]);
  const [method] = toRecords(result["authMethods"]);
  const agent: AgentOffer = {
    canLoad: capabilities["loadSession"] === true,
    canResume: isRecord(sessions["resume"]),
    canFork: isRecord(sessions["fork"]),
    ...defined({ auth: asText(method?.["id"]) }),
  };
  reading.change({ agent, phase: "opening" });
  open(reading);
}

function open(reading: AcpReading): void {
  const { wishes, agent } = reading.state;
  if (!wishes || !agent) return;
  if (wishes.resume !== undefined && wishes.fork && reading.dialect.fork) {
    const { method, params } = reading.dialect.fork;
    return void reading.replies.push(toRequest("fork", method, params(wishes)));
  }
  const step = toOpening(wishes, agent);
  if (typeof step === "string") return refuse(reading, step);
  reading.replies.push(toRequest("open", step.method, step.params));
}

/** The copy is opened like any earlier session. */
function openFork(reading: AcpReading, session: string | undefined): void {
  const { wishes } = reading.state;
  if (!wishes || session === undefined) return refuse(reading, "the agent did not name the forked session");
  const { fork: _, ...rest } = wishes;
  reading.change({ wishes: { ...rest, resume: session } });
  open(reading);
}

/** The request that opens the session, or the reason why there is none. */
function toOpening(wishes: Wishes, agent: AgentOffer): { method: string; params: Params } | string {
  const { cwd, mcpServers, resume, fork } = wishes;
  if (resume === undefined) return { method: "session/new", params: { cwd, mcpServers } };
  const params = { sessionId: resume, cwd, mcpServers };
  if (fork) return agent.canFork ? { method: "session/fork", params } : "the agent cannot fork a session";
  // Resuming replays nothing; loading replays the whole conversation.
  if (agent.canResume) return { method: "session/resume", params };
  return agent.canLoad ? { method: "session/load", params } : "the agent cannot continue an earlier session";
}

function readOpened(reading: AcpReading, result: Params): void {
  const { wishes, session: asked } = reading.state;
  const session = typeof result["sessionId"] === "string" ? result["sessionId"] : (asked ?? wishes?.resume);
  reading.change({ session, wishes: undefined, isReplaying: undefined, phase: "tuning" });
  if (session !== undefined) reading.scribe.session(session);
  if (!wishes) return confirmSetting(reading);
  const settings = (reading.dialect.settings ?? offeredSettings)(wishes, { ...result, sessionId: session });
  if (typeof settings === "string") return refuse(reading, settings);
  for (const { id, method, params } of settings) reading.replies.push(toRequest(id, method, params));
  reading.change({ aside: { ...reading.state.aside, tuning: String(settings.length) } });
  if (settings.length === 0) confirmSetting(reading);
}

/** Counts a confirmed setting. After the last one the session is ready. */
function confirmSetting(reading: AcpReading): void {
  const left = Number(reading.state.aside["tuning"] ?? 0) - 1;
  if (left > 0) return reading.change({ aside: { ...reading.state.aside, tuning: String(left) } });
  reading.change({ phase: "ready", aside: without(reading.state.aside, "tuning") });
}

/** Authenticates once: some agents use the key of their environment only on request. */
function tryAuth(reading: AcpReading): boolean {
  const { agent, wishes } = reading.state;
  if (agent?.auth === undefined || !wishes) return false;
  const { auth, ...rest } = agent;
  reading.change({ agent: rest });
  reading.replies.push(toRequest("authenticate", "authenticate", { methodId: auth }));
  return true;
}

function refuse(reading: AcpReading, why: string): void {
  reading.change({ phase: "failed" });
  failTurn(reading, { error: { code: "invalid_request", message: why }, stopReason: "model_error" });
}

/** Agents' names of a session's permission modes. */
const MODES: Readonly<Record<string, readonly string[]>> = {
  plan: ["plan", "read-only", "readonly", "architect"],
  acceptEdits: ["acceptEdits", "autoEdit", "auto_edit", "auto-edit"],
};

/** The session's wishes as settings of the agent, or the error for a wish that the agent does not offer. */
function offeredSettings(wishes: Wishes, offer: Params): readonly Setting[] | string {
  const session = String(offer["sessionId"]);
  const wanted = [modeSetting(wishes, offer), modelSetting(wishes, offer), effortSetting(wishes, offer)];
  const missing = wanted.find((setting) => typeof setting === "string");
  if (missing !== undefined) return missing;
  return wanted
    .filter((setting) => typeof setting === "object")
    .map(({ id, method, params }) => ({ id, method, params: { sessionId: session, ...params } }));
}

type Wanted = Setting | string | undefined;

function modeSetting({ agentMode, permissionMode }: Wishes, offer: Params): Wanted {
  const candidates = agentMode === undefined ? (MODES[permissionMode ?? ""] ?? []) : [agentMode];
  if (candidates.length === 0) return undefined;
  const modes = idsOf(offer["modes"], { list: "availableModes", id: "id" });
  const mode = candidates.find((name) => modes.includes(name));
  if (mode !== undefined) return { id: "mode", method: "session/set_mode", params: { modeId: mode } };
  const option = findOption(offer, "mode");
  const value = candidates.find((name) => option?.values.includes(name));
  if (option && value !== undefined) return toOption("mode", option.id, value);
  // An agent without a mode for edits may be used: the session's own policy accepts edits. A plan needs the agent's
  // mode.
  if (agentMode === undefined && permissionMode === "acceptEdits") return undefined;
  return `the agent has no mode "${candidates[0]}"; it has: ${listed(modes, option?.values)}`;
}

function modelSetting({ model }: Wishes, offer: Params): Wanted {
  if (model === undefined) return undefined;
  const models = idsOf(offer["models"], { list: "availableModels", id: "modelId" });
  if (models.includes(model)) return { id: "model", method: "session/set_model", params: { modelId: model } };
  const option = findOption(offer, "model");
  if (option?.values.includes(model)) return toOption("model", option.id, model);
  return `the agent has no model "${model}"; it has: ${listed(models, option?.values)}`;
}

function effortSetting({ variant }: Wishes, offer: Params): Wanted {
  if (variant === undefined) return undefined;
  const option = findOption(offer, "thought_level");
  if (option?.values.includes(variant)) return toOption("effort", option.id, variant);
  return `the agent has no variant "${variant}"; it has: ${listed([], option?.values)}`;
}

function toOption(id: string, configId: string, value: string): Setting {
  return { id, method: "session/set_config_option", params: { configId, value } };
}

function findOption(offer: Params, category: string): { id: string; values: string[] } | undefined {
  const options = toRecords(offer["configOptions"]);
  const found = options.find((option) => option["category"] === category);
  if (!found) return undefined;
  return { id: String(found["id"]), values: idsOf(found, { list: "options", id: "value" }) };
}

function idsOf(holder: unknown, { list, id }: { list: string; id: string }): string[] {
  return toRecords(toFields(holder)[list]).flatMap((entry) => asText(entry[id]) ?? []);
}

function listed(...lists: (readonly string[] | undefined)[]): string {
  const all = [...new Set(lists.flatMap((list) => list ?? []))];
  return all.length === 0 ? "none" : all.join(", ");
}
