import { createHmac, randomBytes } from "node:crypto";
import type Anthropic from "@anthropic-ai/sdk";
import { BETA } from "../anthropic-bench.ts";

export interface Registration {
  readonly secret: string;
  readonly run_id: string;
}

export interface Report {
  readonly body: string;
  readonly secret: string;
  readonly timestamp?: number;
  readonly nonce?: string;
  readonly signature?: string;
}

export const now = (): number => Math.floor(Date.now() / 1000);

export const freshNonce = (): string => randomBytes(16).toString("hex");

export function register(client: Anthropic, session: string): Promise<Registration> {
  const headers = { "anthropic-beta": BETA };
  return client.post(`/v1/sessions/${session}/callbacks/register`, { headers }) as Promise<Registration>;
}

/** As a runner posts it: no API key, no beta header. */
export function post(url: string, session: string, report: Report): Promise<Response> {
  const { body, secret, timestamp = now(), nonce = freshNonce() } = report;
  const mac = createHmac("sha256", secret).update(`${timestamp}.${nonce}.${body}`).digest("hex");
  return fetch(`${url}/anthropic/v1/sessions/${session}/callbacks`, {
    method: "POST",
    body,
    headers: {
      "sluice-timestamp": String(timestamp),
      "sluice-nonce": nonce,
      "sluice-signature": report.signature ?? `v1=${mac}`,
    },
  });
}

export const said = (run_id: string, ...events: object[]): string => JSON.stringify({ run_id, events });

export const custom = (name: string, value: unknown = null): object => ({ type: "custom", name, value });
