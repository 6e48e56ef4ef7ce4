import { existsSync, mkdtempSync } from "node:fs";
import type { RequestListener } from "node:http";
import { join } from "node:path";
import { expect } from "vitest";
import type { LentSecret } from "../../../src/contract/index.ts";
import { keepTrust } from "../../../src/sandbox/egress/certificate.ts";
import type { Egress, EgressOptions } from "../../../src/sandbox/egress/egress.ts";
import { EgressLab } from "./lab.ts";
import { DESK_TOKEN, toDesk } from "./lending-desk.ts";

export const lab = new EgressLab();

export const PLACEHOLDER = "SLUICE_SECRET_0123456789abcdef0123456789abcdef";

export const VALUE = 'v4lue-"9f2c"-of-the-secret';

/** Sends back the whole request as it came. */
export const echo: RequestListener = async (request, response) => {
  response.setHeader("x-seen", request.headers["x-key"] ?? "");
  response.end(JSON.stringify({ url: request.url, headers: request.headers, body: await textOf(request) }));
};

/** Of a WebSocket's server, up to 125 bytes; 0x81 is no UTF-8, so the test compares Node's replacement. */
export function toTextFrame(text: string): Buffer {
  return Buffer.from([0x81, text.length, ...Buffer.from(text)]);
}

type Wish = Partial<LentSecret>;

export function toSecret(wish: Wish): LentSecret {
  return { placeholder: PLACEHOLDER, value: VALUE, header: true, body: false, ...wish };
}

/** An egress proxy to api.test, to which these are lent. */
export async function lend(
  wishes: readonly Wish[],
  where: { port: number; hosts?: readonly string[] } & Partial<EgressOptions>,
): Promise<Egress> {
  const desk = await openDesk(() => wishes.map(toSecret));
  return lendBy(desk.url, where);
}

export async function lendBy(
  url: string,
  { port, hosts = [], ...options }: { port: number; hosts?: readonly string[] } & Partial<EgressOptions>,
): Promise<Egress> {
  const trust = mkdtempSync(join(lab.folder, "trust-"));
  keepTrust(trust, { url, token: DESK_TOKEN });
  expect(existsSync(join(trust, "trust", "bundle.pem"))).toBe(true);
  const { egress } = await lab.egress({
    policy: { mode: "allow", hosts: [`api.test:${port}`, ...hosts], private: ["*.test"] },
    names: { "api.test": ["127.0.0.1"], "other.test": ["127.0.0.1"] },
    trust,
    ...options,
  });
  return egress;
}

export async function openDesk(
  lent: () => readonly LentSecret[],
): Promise<{ url: string; asked: () => number; close: () => Promise<void> }> {
  let asked = 0;
  const desk = toDesk(lent);
  const port = await lab.serve((request, response) => {
    asked += 1;
    desk(request, response);
  });
  return { url: `http://127.0.0.1:${port}/s`, asked: () => asked, close: () => lab.stopServing(port) };
}

export async function textOf(request: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}
