import {
  type Answer,
  type AnswerUsage,
  inputOf,
  type ModelFailure,
  textOf,
  type ToolCall,
} from "../answer.ts";
import type { Ask, Entry } from "../ask.ts";
import { asList, asObject, asText, type Json } from "../json.ts";
import {
  breakOff,
  FAILURE_MESSAGES,
  type Frame,
  type HttpFailure,
  RETRY_AFTER,
  toFrame,
  type Wire,
  type WireRequest,
} from "../wire.ts";

/** Google's generateContent, whole and streamed. */
export const gemini: Wire = { id: "gemini", parse, stream, whole, failure };

function parse({ body, url, bytes }: WireRequest): Ask {
  const settings = asObject(body["generationConfig"]);
  const schema = settings["responseJsonSchema"] ?? settings["responseSchema"];
  const calling = asObject(asObject(body["toolConfig"])["functionCallingConfig"]);
  const allowed = calling["allowedFunctionNames"];
  const forced = calling["mode"] === "ANY" && Array.isArray(allowed) ? asText(allowed[0]) : "";
  return {
    model: /\/models\/([^/:]+):/.exec(url.pathname)?.[1] ?? "",
    stream: url.pathname.endsWith(":streamGenerateContent"),
    system: textsOf(body["systemInstruction"]).join("\n"),
    entries: asList(body["contents"]).flatMap(toEntries),
    tools: asList(body["tools"])
      .flatMap((tool) => asList(tool["functionDeclarations"]))
      .map((tool) => ({
        name: asText(tool["name"]),
        freeform: false,
        schema: tool["parametersJsonSchema"] ?? tool["parameters"],
      })),
    thinks: asObject(settings["thinkingConfig"])["includeThoughts"] === true,
    wantsUsage: true,
    bytes,
    ...(forced === "" ? {} : { forced }),
    ...(schema === undefined ? {} : { schema }),
  };
}

function toEntries(content: Json): Entry[] {
  const parts = asList(content["parts"]);
  const texts = textsOf(content);
  if (content["role"] === "model") {
    const calls = parts
      .map((part) => asObject(part["functionCall"]))
      .filter(({ name }) => name !== undefined);
    return [
      {
        by: "model",
        text: texts.join("\n"),
        calls: calls.map(({ id, name, args }) => ({ id: asText(id), name: asText(name), input: args })),
      },
    ];
  }
  const results = parts
    .map((part) => asObject(part["functionResponse"]))
    .filter(({ name }) => name !== undefined);
  const outputs = results.map(
    ({ response }) => asText(asObject(response)["output"]) || JSON.stringify(response),
  );
  return [
    ...(results.length === 0 ? [] : [{ by: "tool" as const, texts: outputs }]),
    ...(texts.length === 0 ? [] : [{ by: "user" as const, texts }]),
  ];
}

function textsOf(content: unknown): string[] {
  return asList(asObject(content)["parts"])
    .filter((part) => part["thought"] !== true)
    .map((part) => asText(part["text"]))
    .filter((text) => text !== "");
}

const SIGNATURE = "c2NyaXB0ZWQ=";

function* stream(ask: Ask, answer: Answer): Generator<Frame> {
  const send = (parts: readonly Json[], finishReason?: string): Frame =>
    toFrame(toChunk(ask, answer, parts, finishReason));
  for (const part of answer.parts) {
    if (part.do === "pause") yield { pause: part.ms };
    else if (part.do === "call") yield send([toCall(part.call)]);
    else {
      const thought = part.do === "think" ? { thought: true } : {};
      for (const delta of part.do === "break" ? [part.how] : part.deltas) {
        if (typeof delta === "string") yield send([{ text: delta, ...thought }]);
        else if (yield* breakOff(delta, FAULTS)) return;
      }
    }
  }
  if (answer.parts.length > 0) yield send([{ text: "" }], toFinish(answer));
}

const FAULTS = { failed: (kind: ModelFailure): Frame => toFrame(failure(kind).body) };

function whole(ask: Ask, answer: Answer): unknown {
  const parts = answer.parts.flatMap((part) => {
    if (part.do === "call") return [toCall(part.call)];
    if (part.do === "say") return [{ text: textOf(part.deltas) }];
    return part.do === "think" ? [{ text: textOf(part.deltas), thought: true }] : [];
  });
  return toChunk(ask, answer, parts, toFinish(answer));
}

function toChunk(ask: Ask, answer: Answer, parts: readonly Json[], finishReason?: string): Json {
  const candidate = {
    index: 0,
    content: { role: "model", parts },
    ...(finishReason ? { finishReason } : {}),
  };
  return {
    candidates: [candidate],
    usageMetadata: toUsage(answer.usage),
    modelVersion: ask.model,
    responseId: answer.id,
  };
}

function toCall(call: ToolCall): Json {
  const functionCall = { id: `call_${call.id}`, name: call.name, args: inputOf(call) };
  return { functionCall, thoughtSignature: SIGNATURE };
}

function toFinish({ stop }: Answer): string {
  return stop === "refusal" ? "SAFETY" : "STOP";
}

function toUsage(usage: AnswerUsage): Json {
  const prompt = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    promptTokenCount: prompt,
    candidatesTokenCount: Math.max(0, usage.output - usage.reasoning),
    thoughtsTokenCount: usage.reasoning,
    cachedContentTokenCount: usage.cacheRead,
    totalTokenCount: prompt + usage.output,
  };
}

const FAILURES: Record<ModelFailure, [code: number, status: string]> = {
  overloaded: [503, "UNAVAILABLE"],
  rate_limited: [429, "RESOURCE_EXHAUSTED"],
  bad_gateway: [502, "UNAVAILABLE"],
  server_error: [500, "INTERNAL"],
  terminal: [400, "INVALID_ARGUMENT"],
  unauthorized: [401, "UNAUTHENTICATED"],
  context_length: [400, "INVALID_ARGUMENT"],
};

const TOO_LONG = "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576).";

function failure(failure: ModelFailure, given?: string): HttpFailure {
  const [code, status] = FAILURES[failure];
  const message = given ?? (failure === "context_length" ? TOO_LONG : FAILURE_MESSAGES[failure]);
  if (failure !== "rate_limited") return { status: code, body: { error: { code, message, status } } };
  const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "1s" }];
  return { status: code, headers: RETRY_AFTER, body: { error: { code, message, status, details } } };
}
