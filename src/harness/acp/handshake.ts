import { isRecord, type Params, type RpcError } from "../rpc.ts";
import { without } from "../transcript.ts";
import { failTurn } from "./ending.ts";
import { toFailure } from "./failure.ts";
import type { Hand } from "./hand.ts";
import { toRequest } from "./request.ts";
import { offeredSettings } from "./settings.ts";
import type { AgentOffer, Wishes } from "./state.ts";

/** The first words: neither files nor terminals are offered, since the agent has its own. */
export function greet(): readonly string[] {
  const params = {
    protocolVersion: 1,
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    clientInfo: { name: "sluice", title: "sluice", version: "1" },
  };
  return [toRequest("initialize", "initialize", params)];
}

/** The methods whose answers open a session, one after the other. */
export function isHandshake(hand: Hand, method: string): boolean {
  return STEPS.has(method) || OPENING.has(method) || method === hand.dialect.fork?.method;
}

const STEPS = new Set([
  "initialize",
  "authenticate",
  "session/set_mode",
  "session/set_model",
  "session/set_config_option",
]);
const OPENING = new Set(["session/new", "session/load", "session/resume", "session/fork"]);

export function hearHandshake(hand: Hand, method: string, result: unknown): void {
  const given = isRecord(result) ? result : {};
  if (method === "initialize") return hearOffer(hand, given);
  if (method === "authenticate") return open(hand);
  if (method === hand.dialect.fork?.method) return openFork(hand, hand.dialect.fork.session(given));
  if (OPENING.has(method)) return hearOpened(hand, given);
  settle(hand);
}

export function failHandshake(hand: Hand, method: string, error: RpcError): void {
  if (OPENING.has(method) && error.code === AUTH_REQUIRED && tryAuth(hand)) return;
  hand.note({ phase: "failed", isReplaying: undefined });
  const failure = toFailure(error);
  const message = `the agent refused ${method}: ${failure.error.message}`;
  failTurn(hand, { error: { ...failure.error, message }, stopReason: "model_error" });
}

const AUTH_REQUIRED = -32000;

function hearOffer(hand: Hand, result: Params): void {
  const capabilities = isRecord(result["agentCapabilities"]) ? result["agentCapabilities"] : {};
  const sessions = isRecord(capabilities["sessionCapabilities"]) ? capabilities["sessionCapabilities"] : {};
  const [method] = Array.isArray(result["authMethods"]) ? result["authMethods"].filter(isRecord) : [];
  const agent: AgentOffer = {
    canLoad: capabilities["loadSession"] === true,
    canResume: isRecord(sessions["resume"]),
    canFork: isRecord(sessions["fork"]),
    ...(typeof method?.["id"] === "string" ? { auth: method["id"] } : {}),
  };
  hand.note({ agent, phase: "opening" });
  open(hand);
}

function open(hand: Hand): void {
  const { wishes, agent } = hand.state;
  if (!wishes || !agent) return;
  if (wishes.resume !== undefined && wishes.fork && hand.dialect.fork) {
    const { method, params } = hand.dialect.fork;
    return void hand.replies.push(toRequest("fork", method, params(wishes)));
  }
  const step = opening(wishes, agent);
  if (typeof step === "string") return refuse(hand, step);
  hand.replies.push(toRequest("open", step.method, step.params));
}

/** The copy is opened like any earlier session. */
function openFork(hand: Hand, session: string | undefined): void {
  const { wishes } = hand.state;
  if (!wishes || session === undefined) return refuse(hand, "the agent did not name the forked session");
  const { fork: _, ...rest } = wishes;
  hand.note({ wishes: { ...rest, resume: session } });
  open(hand);
}

function opening(wishes: Wishes, agent: AgentOffer): { method: string; params: Params } | string {
  const { cwd, mcpServers, resume, fork } = wishes;
  if (resume === undefined) return { method: "session/new", params: { cwd, mcpServers } };
  const params = { sessionId: resume, cwd, mcpServers };
  if (fork) return agent.canFork ? { method: "session/fork", params } : "the agent cannot fork a session";
  // Resuming says nothing again; loading replays all that was said.
  if (agent.canResume) return { method: "session/resume", params };
  return agent.canLoad ? { method: "session/load", params } : "the agent cannot continue an earlier session";
}

function hearOpened(hand: Hand, result: Params): void {
  const { wishes, session: asked } = hand.state;
  const session = typeof result["sessionId"] === "string" ? result["sessionId"] : (asked ?? wishes?.resume);
  hand.note({ session, wishes: undefined, isReplaying: undefined, phase: "tuning" });
  if (session !== undefined) {
    hand.scribe.add({ type: "session.started", native_session_id: session, data: {} });
  }
  if (!wishes) return settle(hand);
  const settings = (hand.dialect.settings ?? offeredSettings)(wishes, { ...result, sessionId: session });
  if (typeof settings === "string") return refuse(hand, settings);
  for (const { id, method, params } of settings) hand.replies.push(toRequest(id, method, params));
  hand.note({ aside: { ...hand.state.aside, tuning: String(settings.length) } });
  if (settings.length === 0) settle(hand);
}

/** Ready when every setting has been confirmed. */
function settle(hand: Hand): void {
  const left = Number(hand.state.aside["tuning"] ?? 0) - 1;
  if (left > 0) return hand.note({ aside: { ...hand.state.aside, tuning: String(left) } });
  hand.note({ phase: "ready", aside: without(hand.state.aside, "tuning") });
}

/** Once: an agent whose key is in its environment may still want to be told to use it. */
function tryAuth(hand: Hand): boolean {
  const { agent, wishes } = hand.state;
  if (agent?.auth === undefined || !wishes) return false;
  const { auth, ...rest } = agent;
  hand.note({ agent: rest });
  hand.replies.push(toRequest("authenticate", "authenticate", { methodId: auth }));
  return true;
}

function refuse(hand: Hand, why: string): void {
  hand.note({ phase: "failed" });
  failTurn(hand, { error: { code: "invalid_request", message: why }, stopReason: "model_error" });
}
