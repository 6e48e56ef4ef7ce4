import type { Api } from "./api.ts";
import { print } from "./output.ts";

const PATIENCE_MS = 60_000;

/** The session that the lines are about: a new one, an old one, or an old one's copy. Its id. */
export async function openSession(
  api: Api,
  options: { resume?: string | undefined; fork?: boolean | undefined; title?: string | undefined },
): Promise<string> {
  const { resume, fork } = options;
  if (resume === undefined) return open(api, "POST", "/session", { title: options.title ?? "sluice" });
  if (fork === true) return open(api, "POST", `/session/${encodeURIComponent(resume)}/fork`, {});
  return open(api, "GET", `/session/${encodeURIComponent(resume)}`);
}

async function open(api: Api, method: string, path: string, body?: unknown): Promise<string> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const answer = await api.send(method, path, { signal, ...(body === undefined ? {} : { body }) });
  print(JSON.stringify({ method, path, ...answer }));
  const id = answer.status === 200 ? (JSON.parse(answer.body) as { id?: unknown }).id : undefined;
  if (typeof id === "string") return id;
  throw new Error(`${method} ${path} was answered with ${answer.status}: ${answer.body.slice(0, 300)}`);
}
