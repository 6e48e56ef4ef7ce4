import { outputOf } from "../acp/content.ts";
import type { AcpReading } from "../acp/dialect.ts";
import { toFailure } from "../acp/failure.ts";
import { callOrigin, endSpeech, MAIN, readChunk } from "../acp/messages.ts";
import { finishHeld, readTool } from "../acp/tools.ts";
import { toUsage } from "../acp/turns.ts";
import { isRecord, toFields, toRecords } from "../fields.ts";
import type { Params, RpcMessage } from "../rpc.ts";
import { own, without } from "../transcript.ts";

/** A report of the observer in the CLI's process (`observeModel` of `prelude.ts`) on its model requests. */
export function readObservation(
  reading: AcpReading,
  message: Extract<RpcMessage, { method: string }>,
): boolean {
  if (message.method !== OBSERVATION) return false;
  const { params } = message;
  switch (params["event"]) {
    case "request":
      readRequest(reading, params);
      return true;
    case "call":
      readCall(reading, params);
      return true;
    case "words":
      readText(reading, params);
      return true;
    case "response":
      endRequest(reading, params);
      return true;
    case "failed":
      failRequest(reading, params);
      return true;
    default:
      return false;
  }
}

const OBSERVATION = "_sluice/model";

export function isRequest(message: RpcMessage): boolean {
  return (
    message.kind === "notification" && message.method === OBSERVATION && message.params["event"] === "request"
  );
}

/** Reads a model request. It contains the results of earlier calls, which ACP shows less completely. */
function readRequest(reading: AcpReading, { id, model, results, isSummary }: Params): void {
  for (const result of toRecords(results)) readResult(reading, result);
  finishHeld(reading);
  reading.change({ aside: { ...reading.state.aside, witness: "yes" } });
  const parent = runningCall(reading);
  reading.scribe.startModel(`request-${String(id)}`, {
    model: typeof model === "string" ? model : undefined,
    ...(parent === undefined ? {} : { parent }),
  });
  if (isSummary === true) reading.change({ aside: { ...reading.state.aside, [SUMMARY]: String(id) } });
}

function readCall(reading: AcpReading, { call }: Params): void {
  if (!isRecord(call)) return;
  const parent = runningCall(reading);
  if (parent === undefined) return noteCall(reading, call);
  childCall(reading, parent, call);
}

/** A thought, or a sub-agent's text. */
function readText(reading: AcpReading, { text, thought }: Params): void {
  const parent = runningCall(reading);
  if (thought !== true && parent === undefined) return;
  const kind = thought === true ? "reasoning" : "text";
  const origin = parent === undefined ? MAIN : callOrigin(parent);
  readChunk(reading, { content: { type: "text", text } }, { kind, origin });
}

function readResult(reading: AcpReading, result: Params): void {
  if (childResult(reading, result)) return;
  const { id, name } = result;
  const { held, tools } = reading.state;
  const call = `${String(name)}__${String(id)}`;
  if (held !== undefined) {
    if (held.call === call || (id === undefined && held.call.startsWith(`${String(name)}__`))) {
      finishHeld(reading, readResponse(result));
    }
    return;
  }
  // ACP does not report a call of an unknown tool.
  if (own(tools, call) !== undefined || !findCall(reading, { name: String(name), id: String(id) })) return;
  readTool(reading, { toolCallId: call, ...readResponse(result) }, { origin: MAIN, isUpdate: true });
}

function endRequest(reading: AcpReading, { id, usage }: Params): void {
  const native = `request-${String(id)}`;
  const counts = toFields(usage);
  const total = Number(counts["promptTokenCount"] ?? 0);
  const cached = Number(counts["cachedContentTokenCount"] ?? 0);
  const told = toUsage({
    input_tokens: Math.max(0, total - cached),
    // Gemini counts its thoughts apart from the answer.
    output_tokens: Number(counts["candidatesTokenCount"] ?? 0) + Number(counts["thoughtsTokenCount"] ?? 0),
    cache_read_tokens: cached,
    reasoning_tokens: counts["thoughtsTokenCount"],
  });
  reading.scribe.endModel(native, { usage: told });
  const { [SUMMARY]: summary, [ATTEMPT]: _, ...aside } = reading.state.aside;
  reading.change({ aside });
  if (summary !== String(id)) return;
  endSpeech(reading, MAIN);
  reading.scribe.compacted({ trigger: "auto" });
}

const SUMMARY = "summary";
const ATTEMPT = "attempt";

/** Reports a failed request. The CLI retries silently; its answer to the prompt shows that it has given up. */
function failRequest(reading: AcpReading, { id, status, message }: Params): void {
  const code = typeof status === "number" ? status : 0;
  const { error } = toFailure({ code, message: typeof message === "string" ? message : `HTTP ${code}` });
  reading.scribe.endModel(`request-${String(id)}`, { error });
  if (error.retryable !== true || reading.state.isCancelled) return;
  const attempt = Number(reading.state.aside[ATTEMPT] ?? 0) + 1;
  reading.change({ aside: { ...reading.state.aside, [ATTEMPT]: String(attempt) } });
  reading.scribe.add({ type: "turn.retrying", data: { turn_id: "", attempt, delay_ms: 0, error } });
}

/** A call that the observer saw in the model's answer, before the CLI makes it. */
interface ObservedCall {
  readonly key: string;
  readonly name: string;
  readonly id?: string;
  readonly args: unknown;
}

const PREFIX = "call:";

function noteCall(reading: AcpReading, { name, id, args }: Params): void {
  const known = { name: String(name), args: args ?? {}, ...(typeof id === "string" ? { id } : {}) };
  const key = `${PREFIX}${observedCalls(reading).length}:${reading.scribe.transcript.count}`;
  reading.change({ aside: { ...reading.state.aside, [key]: JSON.stringify(known) } });
}

/** Finds a call by its id; without an id, the oldest of that name. */
export function findCall(
  reading: AcpReading,
  { name, id }: { name: string; id: string },
): ObservedCall | undefined {
  const named = observedCalls(reading).filter((call) => call.name === name);
  return named.find((call) => call.id === id) ?? named.find((call) => call.id === undefined);
}

/** Forgets a call that the CLI has reported itself. */
export function forgetCall(reading: AcpReading, native: string): void {
  const end = native.lastIndexOf("__");
  const call = findCall(reading, { name: native.slice(0, end), id: native.slice(end + 2) });
  if (call) reading.change({ aside: without(reading.state.aside, call.key) });
}

function observedCalls({ state }: AcpReading): ObservedCall[] {
  return Object.entries(state.aside).flatMap(([key, value]) => {
    if (!key.startsWith(PREFIX)) return [];
    return [{ key, ...(JSON.parse(value) as Omit<ObservedCall, "key">) }];
  });
}

/** The running call. Calls run one after the other, so model requests meanwhile come from its sub-agent. */
function runningCall(reading: AcpReading): string | undefined {
  return Object.entries(reading.state.tools).find(
    ([id, notes]) => isRunning(reading, id) && notes.isSettled && !notes.isDone,
  )?.[0];
}

/** A sub-agent's own call. */
function childCall(reading: AcpReading, parent: string, call: Params): void {
  const { id, name, args } = call;
  endSpeech(reading, callOrigin(parent));
  reading.scribe.call(`${parent}/${String(id ?? name)}`, { name: String(name), input: args ?? {}, parent });
}

/** Reads the result of a sub-agent's call. False for any other call. */
function childResult(reading: AcpReading, result: Params): boolean {
  const parent = runningCall(reading);
  const native = `${parent ?? ""}/${String(result["id"] ?? result["name"])}`;
  if (parent === undefined || !reading.scribe.hasCall(native)) return false;
  const { status, rawOutput } = readResponse(result);
  return reading.scribe.result(native, {
    output: outputOf(undefined, rawOutput),
    failed: status === "failed",
  });
}

/** A call that waits for permission is not running; a held call has ended. */
function isRunning({ state }: AcpReading, id: string): boolean {
  const isAsked = Object.values(state.transcript.asks).some(({ call }) => call === id);
  return !isAsked && state.held?.call !== id && !state.denied.includes(id);
}

/** A `functionResponse` in the form of a call's last update. */
function readResponse({ response }: Params): Params {
  const { output, error } = toFields(response);
  if (typeof error === "string") return { status: "failed", rawOutput: error };
  if (typeof output !== "string") return { status: "completed" };
  const words = output.replace(/^<untrusted_context>\n?([\s\S]*?)\n?<\/untrusted_context>$/, "$1");
  if (!/^Process Group PGID: /m.test(words)) return { status: "completed", rawOutput: words };
  const code = Number(/^Exit Code: (-?\d+)$/m.exec(words)?.[1] ?? 0);
  const said = shellOutput(words);
  return { status: "completed", rawOutput: code === 0 ? said : { output: said, exit_code: code } };
}

/** A command's own output, from the report for the model. */
function shellOutput(words: string): string {
  return (
    /^Output: ([\s\S]*?)(?:\n(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): |$)/.exec(
      words,
    )?.[1] ?? words
  );
}
