import type { Wire } from "./wire.ts";
import { anthropic } from "./wires/anthropic.ts";
import { chat } from "./wires/chat.ts";
import { gemini } from "./wires/gemini.ts";
import { responses } from "./wires/responses.ts";

export type Route =
  | { readonly kind: "answer"; readonly wire: Wire }
  | { readonly kind: "count"; readonly wire: Wire }
  | { readonly kind: "models" | "health" | "none" };

/** By the path's end, so that a client's base address may have any path of its own. */
export function findRoute(method: string, path: string): Route {
  if (method === "GET" || method === "HEAD") {
    if (path.endsWith("/models")) return { kind: "models" };
    return { kind: path === "/" ? "health" : "none" };
  }
  if (method !== "POST") return { kind: "none" };
  if (path.endsWith("/messages/count_tokens")) return { kind: "count", wire: anthropic };
  if (path.endsWith(":countTokens")) return { kind: "count", wire: gemini };
  if (path.endsWith("/messages")) return { kind: "answer", wire: anthropic };
  if (path.endsWith("/responses")) return { kind: "answer", wire: responses };
  if (path.endsWith("/chat/completions")) return { kind: "answer", wire: chat };
  if (/:(?:stream)?generateContent$/i.test(path)) return { kind: "answer", wire: gemini };
  return { kind: "none" };
}
