import { fetcherOf } from "./reach.ts";
import type { CredentialSecrets } from "../../dialects/anthropic/resources/credential-auth.ts";

/** What may be shown of the answer to a request that held secrets. */
export interface HttpAnswer {
  readonly status_code: number;
  readonly content_type: string;
  readonly body: string;
  readonly body_truncated: boolean;
}

export interface CallOptions {
  /** Whose secrets they are: a tenant's go to hosts of the internet alone. */
  readonly owner: string;
  readonly secrets: CredentialSecrets;
  readonly signal?: AbortSignal;
  /** Told the whole text, secrets included. */
  readonly onText?: (text: string) => void;
}

const TIMEOUT_MS = 10_000;
const MAX_BODY = 4096;

/** Undefined where there was no answer. A redirect is not followed: the secrets are meant for this address alone. */
export async function callWith(
  url: string,
  init: RequestInit,
  { owner, secrets, signal, onText }: CallOptions,
): Promise<HttpAnswer | undefined> {
  try {
    const timeout = AbortSignal.timeout(TIMEOUT_MS);
    const until = signal ? AbortSignal.any([signal, timeout]) : timeout;
    const response = await fetcherOf(owner)(url, { ...init, redirect: "manual", signal: until });
    const content_type = response.headers.get("content-type") ?? "";
    const isStream = content_type.startsWith("text/event-stream");
    if (isStream) await response.body?.cancel();
    const text = isStream ? "" : await readSome(response);
    onText?.(text);
    const scrubbed = scrub(text, secrets);
    return {
      status_code: response.status,
      content_type,
      body: scrubbed.slice(0, MAX_BODY),
      body_truncated: scrubbed.length > MAX_BODY,
    };
  } catch {
    return undefined;
  }
}

async function readSome({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  // Breaking off cancels the rest.
  for await (const chunk of (body ?? []) as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > 16 * MAX_BODY) break;
  }
  return text;
}

// A server may send back what it was sent.
function scrub(text: string, secrets: CredentialSecrets): string {
  const words = Object.values(secrets).filter(
    (word): word is string => typeof word === "string" && word !== "",
  );
  return words.reduce((scrubbed, word) => scrubbed.replaceAll(word, "[redacted]"), text);
}
