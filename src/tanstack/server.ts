import { Transport } from "../client/transport.ts";

/** Where the agent runs. */
export interface SluiceServer {
  /** Such as `http://127.0.0.1:7411`. */
  readonly baseUrl: string;
  /** The agent of the sessions: `claude`, `codex`, `opencode`, `grok`, `scripted`… */
  readonly agent: string;
  readonly token?: string | undefined;
  readonly fetch?: typeof fetch;
}

export function createTransport({ baseUrl, token, fetch }: SluiceServer): Transport {
  return new Transport({
    url: baseUrl,
    ...(token === undefined ? {} : { token }),
    ...(fetch ? { fetch } : {}),
  });
}

export function pathOf({ agent }: SluiceServer): string {
  return `/ag-ui/${encodeURIComponent(agent)}`;
}
