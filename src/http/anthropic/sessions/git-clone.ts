import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Checkout } from "../../../dialects/anthropic/resources/session.ts";
import { openPublicProxy } from "../../public-network.ts";

export interface CloneRequest {
  readonly url: string;
  readonly checkout?: Checkout | undefined;
  readonly token?: string | undefined;
  /** Clones over a proxy that reaches hosts of the internet alone, redirects included. */
  readonly isPublic: boolean;
}

export class RepositoryFailure extends Error {
  /** The error code in the log. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "RepositoryFailure";
    this.code = code;
  }
}

const run = promisify(execFile);
const TIMEOUT_MS = 120_000;

/** Clones a repository without its hooks and without the git configuration of this machine. */
export async function cloneRepository(folder: string, wanted: CloneRequest): Promise<void> {
  const proxy = wanted.isPublic ? await openPublicProxy() : undefined;
  try {
    await clone(folder, wanted, toEnvironment(folder, wanted.token, proxy?.url));
  } finally {
    await proxy?.close();
  }
}

async function clone(
  folder: string,
  { url, checkout, token }: CloneRequest,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  const git = async (...args: string[]): Promise<void> => {
    await run("git", args, { env, timeout: TIMEOUT_MS, maxBuffer: 1 << 20 });
  };
  await git("clone", "--quiet", "--no-hardlinks", "--", url, folder).catch((error: unknown) => {
    throw new RepositoryFailure(codeOf(error), `${url} could not be cloned: ${messageOf(error, token)}`);
  });
  if (!checkout) return;
  const target = checkout.type === "branch" ? checkout.name : checkout.sha;
  await git("-C", folder, "checkout", "--quiet", target, "--").catch((error: unknown) => {
    const message = `${url} has no ${checkout.type} ${target}: ${messageOf(error, token)}`;
    throw new RepositoryFailure("repository_checkout", message);
  });
}

/** The token is in the environment: arguments would show it to every process, and files of the clone to the agent. */
function toEnvironment(
  home: string,
  token: string | undefined,
  proxy: string | undefined,
): NodeJS.ProcessEnv {
  const settings: [string, string][] = [
    ["core.hooksPath", "/dev/null"],
    ["protocol.allow", "never"],
    ["protocol.https.allow", "always"],
    ["protocol.http.allow", "always"],
    ["protocol.file.allow", proxy === undefined ? "always" : "never"],
    ["safe.directory", "*"],
  ];
  if (proxy !== undefined) settings.push(["http.proxy", proxy], ["http.proxyAuthMethod", "basic"]);
  if (token !== undefined) {
    const basic = Buffer.from(`x-access-token:${token}`).toString("base64");
    settings.push(["http.extraHeader", `Authorization: Basic ${basic}`]);
  }
  const env: NodeJS.ProcessEnv = {
    PATH: process.env["PATH"],
    HOME: home,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_TERMINAL_PROMPT: "0",
    GIT_CONFIG_COUNT: String(settings.length),
  };
  for (const [index, [key, value]] of settings.entries()) {
    env[`GIT_CONFIG_KEY_${index}`] = key;
    env[`GIT_CONFIG_VALUE_${index}`] = value;
  }
  return env;
}

function codeOf(error: unknown): string {
  const { stderr: text = "" } = error as { stderr?: string };
  if (/authentication failed|could not read username|\b401\b/i.test(text)) return "repository_authentication";
  if (/\b403\b|permission denied|forbidden/i.test(text)) return "repository_forbidden";
  if (/not found|does not exist|\b404\b|does not appear to be a git repository/i.test(text))
    return "repository_not_found";
  return "repository_clone";
}

function messageOf(error: unknown, token: string | undefined): string {
  const { stderr, message } = error as { stderr?: string; message: string };
  const text = (stderr || message)
    .trim()
    .replaceAll(/\s*\n\s*/g, "; ")
    .slice(0, 500);
  return token === undefined ? text : text.replaceAll(token, "[token]");
}
