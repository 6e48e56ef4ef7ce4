import type { Context, Hono } from "hono";
import { SluiceError } from "../contract/index.ts";
import type { AppEnv } from "./context.ts";
import { toNotFound } from "./problem.ts";

/** The methods that the routes of an app have for a path, with HEAD and OPTIONS; none for an unknown path. */
export function methodsOf(app: Hono<AppEnv>, path: string): string[] {
  const found = new Set<string>();
  for (const route of app.routes)
    if (route.method !== "ALL" && toPattern(route.path).test(path)) found.add(route.method);
  if (found.size === 0) return [];
  if (found.has("GET")) found.add("HEAD");
  return [...found.add("OPTIONS")].sort();
}

/** The response to a request without a route: 404, or for a known path 405, or its methods for OPTIONS. */
export function answerUnrouted(
  app: Hono<AppEnv>,
  c: Context<AppEnv>,
  fail: (error: SluiceError) => Response,
): Response {
  const { method, path } = c.req;
  const allow = methodsOf(app, path);
  if (allow.length === 0) return fail(toNotFound(c));
  if (method === "OPTIONS") return new Response(null, { status: 204, headers: { allow: allow.join(", ") } });
  const detail = `${path} has no ${method}. Its methods are ${allow.join(", ")}.`;
  return fail(new SluiceError("method_not_allowed", detail, { allow }));
}

/** Node 20 has no `RegExp.escape`. */
function escape(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`);
}

const patterns = new Map<string, RegExp>();

/** The paths of a route, such as `/v1/sessions/:id`. */
export function toPattern(path: string): RegExp {
  const known = patterns.get(path);
  if (known) return known;
  const source = path
    .split("/")
    .map((part) => (part === "*" ? ".*" : part.startsWith(":") ? "[^/]+" : escape(part)))
    .join("/");
  const pattern = new RegExp(`^${source}$`);
  patterns.set(path, pattern);
  return pattern;
}
