import type { Context, Hono } from "hono";
import { RESERVED_SESSION_IDS, SluiceError } from "../contract/index.ts";
import type { AppEnv } from "./context.ts";
import { toNotFound } from "./problem.ts";

/** The methods that the routes of an app have for a path, with HEAD and OPTIONS; none for an unknown path. */
export function methodsOf(app: Hono<AppEnv>, path: string): string[] {
  const routes = app.routes.filter((route) => route.method !== "ALL" && toPattern(route.path).test(path));
  const own = routes.filter((route) => !routes.some((other) => isCovered(other.path, route.path)));
  const found = new Set(own.map(({ method }) => method));
  return found.size === 0 ? [] : toAllow(found);
}

function toAllow(methods: Set<string>): string[] {
  if (methods.has("GET")) methods.add("HEAD");
  return [...methods.add("OPTIONS")].sort();
}

function toWrongMethod(c: Context<AppEnv>, allow: readonly string[]): string {
  const { path, method } = c.req;
  const [, id = ""] = /^\/v1\/sessions\/([^/]+)$/.exec(path) ?? [];
  const why = RESERVED_SESSION_IDS.has(id)
    ? ` "${id}" cannot be the id of a session; choose another one.`
    : "";
  return `${path} has no ${method}. Its methods are ${allow.join(", ")}.${why}`;
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
  return fail(new SluiceError("method_not_allowed", toWrongMethod(c, allow), { allow }));
}

/**
 * The refusal of a wrong method on a path of its own that a route with parameters covers, too: `/v1/sessions/sse` is
 * no session. The router comes to that route only if the path of its own lacks the method.
 */
export function findCovered(app: Hono<AppEnv>, c: Context<AppEnv>, path: string): SluiceError | undefined {
  const known = coveredPaths.get(app) ?? new Map<string, string[]>();
  coveredPaths.set(app, known);
  const own = known.get(path) ?? app.routes.map((route) => route.path).filter((one) => isCovered(one, path));
  known.set(path, own);
  if (!own.some((one) => toPattern(one).test(c.req.path))) return undefined;
  const allow = methodsOf(app, c.req.path);
  return new SluiceError("method_not_allowed", toWrongMethod(c, allow), { allow });
}

/** For each app, the paths that its routes cover. A dialect has all of its routes before its first request. */
const coveredPaths = new WeakMap<Hono<AppEnv>, Map<string, string[]>>();

/** Whether a path is another one with words in the place of parameters. */
function isCovered(path: string, by: string): boolean {
  const [words, others] = [path.split("/"), by.split("/")];
  if (path.includes("*") || words.length !== others.length) return false;
  return (
    words.every((word, at) => isParameter(others[at]) || word === others[at]) &&
    words.some((word, at) => isParameter(others[at]) && !isParameter(word))
  );
}

function isParameter(part: string | undefined): boolean {
  return part?.startsWith(":") === true;
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
