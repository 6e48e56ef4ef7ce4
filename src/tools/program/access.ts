import { readFileSync } from "node:fs";
import { TOKEN_VARIABLE, URL_VARIABLE } from "../port.ts";

export interface Access {
  readonly url: string;
  readonly token: string;
}

type Variables = Readonly<Record<string, string | undefined>>;

/** The access to the tools. It is read from this program's environment, or from a parent's: some agents do not pass it on. */
export function findAccess(env: Variables, parent: number): Access | undefined {
  const own = toAccess(env);
  if (own) return own;
  for (let pid = parent; pid > 1;) {
    const inherited = toAccess(readEnvironment(pid));
    if (inherited) return inherited;
    pid = readParent(pid);
  }
  // The loop leaves out pid 1, but an agent may be the first process of its own namespace.
  return parent === 1 ? toAccess(readEnvironment(1)) : undefined;
}

function toAccess(env: Variables): Access | undefined {
  const { [URL_VARIABLE]: url = "", [TOKEN_VARIABLE]: token = "" } = env;
  // A CLI that does not replace references to variables passes on the reference itself.
  return URL.canParse(url) && /^[0-9a-f]+$/.test(token) ? { url, token } : undefined;
}

function readEnvironment(pid: number): Variables {
  const entries = readText(`/proc/${pid}/environ`).split("\0");
  return Object.fromEntries(
    entries.map((entry) => [entry.slice(0, entry.indexOf("=")), entry.slice(entry.indexOf("=") + 1)]),
  ) as Variables;
}

function readParent(pid: number): number {
  return Number(/^PPid:\s+(\d+)$/m.exec(readText(`/proc/${pid}/status`))?.[1] ?? 0);
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
