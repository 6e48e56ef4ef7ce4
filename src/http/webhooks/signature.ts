import { createHmac, randomBytes } from "node:crypto";
import { chmodSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { makeOnce } from "../../catalog/encryption.ts";
import { SluiceError } from "../../contract/index.ts";

export function webhookKeyFile(folder: string): string {
  return join(folder, "webhook.key");
}

/** The key that receivers verify deliveries with, created on first use. Servers that start together agree on one. */
export function readWebhookKey(folder: string): string {
  const file = webhookKeyFile(folder);
  if (!existsSync(file)) makeOnce(file, `${createWebhookSecret()}\n`);
  const key = readFileSync(file, "utf8").trim();
  if (!/^whsec_[A-Za-z0-9+/]{32,}={0,2}$/.test(key)) {
    const detail = `${file} holds no webhook key (whsec_ and base64). Put the right one back, or remove it to have a new one made.`;
    throw new SluiceError("data_version", detail, { path: file });
  }
  chmodSync(file, 0o600);
  return key;
}

export function createWebhookSecret(): string {
  return `whsec_${randomBytes(32).toString("base64")}`;
}

/** The headers of Standard Webhooks. */
export function toSignedHeaders(
  key: string,
  { id, body, now }: { id: string; body: string; now: number },
): Record<string, string> {
  const timestamp = String(Math.floor(now / 1000));
  const bytes = Buffer.from(key.slice("whsec_".length), "base64");
  const signature = createHmac("sha256", bytes).update(`${id}.${timestamp}.${body}`).digest("base64");
  return {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1,${signature}`,
  };
}
