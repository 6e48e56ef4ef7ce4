import { signal } from "@preact/signals";
import { createClient, type SluiceClient } from "../../client/client.ts";
import { SluiceClientError } from "../../client/errors.ts";
import { pathOf, type Transport } from "../../client/transport.ts";
import type { Scope } from "../../contract/index.ts";
import { say } from "./announce.ts";
import { createTransport, PROOF_HEADER } from "../log/server-log.ts";

/** The rights of this browser. */
export interface Me {
  readonly scope: Scope;
  /** The only session that it reaches. */
  readonly session?: string;
  readonly isOperator: boolean;
  readonly version: string;
  /** Another text for another build of the page. */
  readonly build?: string;
  /** Whether the server asks for a login at all. */
  readonly login: boolean;
}

export type Entry =
  | { readonly state: "opening" }
  | { readonly state: "open" }
  | { readonly state: "refused"; readonly detail: string }
  | { readonly state: "failed"; readonly title: string; readonly detail: string }
  | { readonly state: "unreachable"; readonly detail: string };

export const entry = signal<Entry>({ state: "opening" });
export const me = signal<Me>({ scope: "read", isOperator: false, version: "", login: false });

/** The half of a login that the page keeps. The other half is a cookie that no script can read; neither opens anything alone. */
const PROOF_KEY = "sluice.page";

export function readProof(): string | null {
  try {
    return localStorage.getItem(PROOF_KEY);
  } catch {
    return null;
  }
}

export let transport: Transport = createTransport(readProof());
export let client: SluiceClient = createPageClient();

function createPageClient(): SluiceClient {
  const proof = readProof();
  return createClient({
    url: "",
    fetch: (input, init) => {
      const headers = new Headers(init?.headers);
      if (proof !== null) headers.set(PROOF_HEADER, proof);
      return globalThis.fetch(input, { ...init, headers, credentials: "same-origin" });
    },
  });
}

const ORDER: readonly Scope[] = ["read", "answer", "control", "admin"];

export function may(scope: Scope): boolean {
  return ORDER.indexOf(me.value.scope) >= ORDER.indexOf(scope);
}

/** Redeems a code of the address, if there is one, and asks for the rights of this browser. */
export async function enter(): Promise<void> {
  const code = takeCode();
  // A browser that is logged in stays so with an old link.
  const failed = code === undefined ? undefined : await login(code).catch((error: unknown) => toEntry(error));
  try {
    me.value = await transport.json<Me>("/ui/me");
    entry.value = { state: "open" };
    if (failed?.state === "refused") say(failed.detail, "bad");
  } catch (error) {
    entry.value = failed ?? toEntry(error);
  }
}

/** Whether the server has another page than this one, since it came back. */
export const isOutdated = signal(false);

/** Asks a server that came back whether it is the same version. */
export async function checkVersion(): Promise<void> {
  const { version, build } = me.value;
  const now = await transport.json<Me>("/ui/me").catch(() => undefined);
  if (now && (now.version !== version || now.build !== build)) isOutdated.value = true;
}

async function login(code: string): Promise<void> {
  const { proof } = await transport.json<{ proof: string }>("/ui/login", { method: "POST", json: { code } });
  localStorage.setItem(PROOF_KEY, proof);
  transport = createTransport(proof);
  client = createPageClient();
}

export async function logout(): Promise<void> {
  await transport.done("/ui/logout", { method: "POST" }).catch(() => {});
  localStorage.removeItem(PROOF_KEY);
  location.hash = "#/";
  location.reload();
}

/** Removes the code from the address before anything else can see it. */
function takeCode(): string | undefined {
  const given = /^#k=([\w-]+)(?:&to=(\/[^&]*))?$/.exec(location.hash);
  if (!given) return undefined;
  history.replaceState(null, "", `${location.pathname}#${given[2] ?? "/"}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
  return given[1];
}

function toEntry(error: unknown): Entry {
  if (!(error instanceof SluiceClientError))
    return { state: "failed", title: "The page could not start", detail: String(error) };
  const { status, retryable, title, detail } = error;
  if (status === 0 || retryable) return { state: "unreachable", detail };
  return status < 500 ? { state: "refused", detail } : { state: "failed", title, detail };
}

/** The words of a failure for a person. */
export function wordsOf(error: unknown): string {
  if (error instanceof SluiceClientError) return error.detail;
  return error instanceof Error ? error.message : String(error);
}

/** A new key, so that a repeated request does nothing twice. */
export function createKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}

export { pathOf };
