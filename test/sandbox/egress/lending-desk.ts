import { createCipheriv, createHmac, randomBytes } from "node:crypto";
import type { RequestListener } from "node:http";
import type { LentSecret } from "../../../src/contract/index.ts";

export const DESK_TOKEN: string = randomBytes(32).toString("hex");

/** A lending endpoint by the contract, for holders of the token. */
export function toDesk(lent: () => readonly LentSecret[]): RequestListener {
  return (request, response) => {
    const nonce = String(request.headers["sluice-nonce"]);
    const expected = `Bearer ${hmac(nonce).toString("hex")}`;
    if (request.headers.authorization !== expected) return void response.writeHead(401).end();
    const iv = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", hmac("answer"), iv).setAAD(Buffer.from(nonce));
    const encrypted = Buffer.concat([cipher.update(JSON.stringify({ secrets: lent() })), cipher.final()]);
    return void response.end(Buffer.concat([iv, cipher.getAuthTag(), encrypted]));
  };
}

function hmac(text: string): Buffer {
  return createHmac("sha256", DESK_TOKEN).update(text).digest();
}
