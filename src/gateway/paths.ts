import type { ModelRoute } from "../contract/process.ts";
import type { Wire } from "./wire.ts";
import { anthropic } from "./wires/anthropic.ts";
import { chat } from "./wires/chat.ts";
import { bedrock, vertex } from "./wires/clouds.ts";
import { gemini } from "./wires/gemini.ts";
import { responses } from "./wires/responses.ts";

export const WIRES_BY_ID: ReadonlyMap<string, Wire> = new Map(
  [anthropic, responses, chat, gemini, bedrock, vertex].map((wire) => [wire.id, wire]),
);

/** A request that may pass. */
export interface Call {
  readonly route: ModelRoute;
  readonly wire: Wire;
  /** Whether it makes the model answer, and so is a model request of the log. Lists of models are not. */
  readonly isModelRequest: boolean;
  /** The path below the upstream's base URL, with its query. */
  readonly path: string;
}

/** A version of an API, such as `/v1` or `/v1beta`. */
const V = String.raw`^(?:/v\d[a-z\d]{0,7})?`;
const VERTEX = String.raw`${V}/projects/[\w.:-]+/locations/[\w-]+/publishers/anthropic/models`;

/** The calls that pass: a method, a whole path below the base URL, and the API that it belongs to. */
const ALLOWED: readonly (readonly [method: string, path: RegExp, wire: Wire, isModelRequest: boolean])[] = [
  ["POST", new RegExp(`${V}/messages$`), anthropic, true],
  ["POST", new RegExp(`${V}/messages/count_tokens$`), anthropic, false],
  ["POST", new RegExp(`${V}/responses$`), responses, true],
  ["POST", new RegExp(`${V}/responses/compact$`), responses, true],
  ["POST", new RegExp(`${V}/responses/input_tokens$`), responses, false],
  ["POST", new RegExp(`${V}/chat/completions$`), chat, true],
  [
    "POST",
    new RegExp(String.raw`${V}/models/[\w.@-]+:(?:streamGenerateContent|generateContent)$`),
    gemini,
    true,
  ],
  ["POST", new RegExp(String.raw`${V}/models/[\w.@-]+:countTokens$`), gemini, false],
  ["POST", /^\/model\/[\w.@:%-]+\/invoke(?:-with-response-stream)?$/, bedrock, true],
  ["POST", /^\/model\/[\w.@:%-]+\/count-tokens$/, bedrock, false],
  ["GET", /^\/inference-profiles$/, bedrock, false],
  ["POST", new RegExp(`${VERTEX}/count-tokens:rawPredict$`), vertex, false],
  ["POST", new RegExp(String.raw`${VERTEX}/[\w.@-]+:(?:streamRawPredict|rawPredict)$`), vertex, true],
  ["GET", new RegExp(String.raw`${V}/models(?:/[\w.@:-]+)?$`), chat, false],
];

/**
 * A path in one spelling: no dots, no empty segment, no escape, so that no server reads another one. Names of models in
 * Bedrock have a colon or a slash, which the CLI escapes.
 */
const PLAIN_PATH = /^(?:\/(?:[\w.~@:+-]|(?<=\/model\/[^/]*)%(?:3A|2F))+)+$/;
const LONGEST_PATH = 2_048;

/** The call of a request's line; undefined for everything that is no model call. */
export function parseCall(
  routes: readonly ModelRoute[],
  method: string | undefined,
  url: string | undefined,
): Call | undefined {
  const [path = "", query] = splitOnce(url ?? "", "?");
  if (path.length > LONGEST_PATH || !PLAIN_PATH.test(path) || /\/\.{1,2}(?:\/|$)/.test(path))
    return undefined;
  const [, id = ""] = path.split("/");
  const found = routes.find((known) => known.id === id);
  const below = path.slice(id.length + 1);
  const rest = found?.tokenInPath ? below.slice(below.indexOf("/", 1)) : below;
  const route = found?.lists !== undefined && method === "GET" ? { ...found, upstream: found.lists } : found;
  const allowed = ALLOWED.find(([verb, end]) => verb === method && end.test(rest));
  if (route === undefined || allowed === undefined) return undefined;
  const [, , wire, isModelRequest] = allowed;
  const kept = keepQuery(query);
  return { route, wire, isModelRequest, path: kept === "" ? rest : `${rest}?${kept}` };
}

/** The query without keys: Gemini takes one as `key`. */
function keepQuery(query: string | undefined): string {
  const parts = (query ?? "").split("&");
  return parts.filter((part) => part !== "" && !SECRET.test(nameOf(part))).join("&");
}

const SECRET = /^\$?(?:key|access_token|oauth_token|api[-_]?key)$/i;

/** The name of a part of a query, as the provider reads it. */
function nameOf(part: string): string {
  return [...new URLSearchParams(part).keys()][0] ?? "";
}

/** The wire in whose form a refused request is answered, by the last part of its path. */
export function guessWire(url: string | undefined): Wire {
  const path = (url ?? "").split("?", 1)[0] ?? "";
  if (/\/model\/[^/]+\/invoke|\/inference-profiles/.test(path)) return bedrock;
  if (/:(?:stream)?[Rr]awPredict$/.test(path)) return vertex;
  if (/\/messages\b|anthropic/.test(path)) return anthropic;
  return /generateContent|countTokens|\/v1beta\b|google|gemini/.test(path) ? gemini : chat;
}

function splitOnce(text: string, separator: string): [string, string?] {
  const at = text.indexOf(separator);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
