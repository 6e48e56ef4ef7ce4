import { chown, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestServer } from "../support/server.ts";
import { makeFolder, serveAs, type ServerUser } from "./fortress-bench.ts";

export const BETA = "managed-agents-2026-04-01";

export const KEYS = { "sk-team-a": "team-a", "sk-team-b": "team-b" };

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly text: string;
}

export type Call = (method: string, path: string, body?: unknown) => Promise<Answer>;

export async function serveTenants(user: ServerUser, args: string[] = []): Promise<TestServer> {
  const file = join(await makeFolder(user), "keys.json");
  await writeFile(file, JSON.stringify(KEYS), { mode: 0o600 });
  if (user.ids) await chown(file, user.ids.uid, user.ids.gid);
  return serveAs(user, { args: ["--keys", file, ...args] });
}

export const callerOf =
  ({ url }: TestServer, key: string): Call =>
  async (method, path, body) => {
    const isForm = body instanceof FormData;
    const response = await fetch(`${url}/anthropic/v1${path}`, {
      method,
      headers: {
        "x-api-key": key,
        "anthropic-beta": BETA,
        ...(isForm ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    });
    const text = await response.text();
    return { status: response.status, text, body: toRecord(text) };
  };

function toRecord(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

export const made = async (call: Call, path: string, body: unknown): Promise<string> => {
  const { status, body: answer, text } = await call("POST", path, body);
  if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
  return String(answer["id"]);
};
