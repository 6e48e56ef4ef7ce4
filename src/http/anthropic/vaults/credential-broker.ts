import { createCipheriv, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import type { Catalog } from "../../../catalog/port.ts";
import type { LentSecret } from "../../../contract/index.ts";
import type { Loan, NamedSecret } from "../../../sessions/index.ts";
import { createCollections, findTenantSession, type Collections } from "../collections.ts";
import { openCredential } from "./credential-secrets.ts";
import { createLoopback } from "./loopback.ts";

export interface CredentialBrokerOptions {
  readonly catalog: Catalog;
  /** Holds the file of the port number, which stays the same: sandboxes outlive the server. */
  readonly folder: string;
}

export interface CredentialBroker {
  /** The secrets of a session's vaults for the environment of its programs. */
  lend(session: string): Promise<Loan | undefined>;
  close(): Promise<void>;
}

/**
 * Lends the `environment_variable` credentials of a session's vaults to the egress proxy of its sandbox, which puts them
 * into requests. Secrets are read for each call, so that a changed one applies at once. A token is valid for one session.
 */
export function createCredentialBroker({ catalog, folder }: CredentialBrokerOptions): CredentialBroker {
  const collections = createCollections(catalog);
  const { start, close } = createLoopback(
    { catalog, purpose: "lending", portFile: join(folder, "credential-desk.port"), failureStatus: 500 },
    (key, request, response) => answer({ catalog, collections, key }, request, response),
  );

  return {
    async lend(session) {
      const owned = await findTenantSession({ catalog, collections }, session);
      if (!owned || owned.body.vault_ids.length === 0) return undefined;
      const { port, key } = await start();
      const secrets = await readSecrets({ catalog, collections, key }, session);
      const url = `http://127.0.0.1:${port}/${encodeURIComponent(session)}`;
      return secrets.length === 0 ? undefined : { lending: { url, token: tokenOf(key, session) }, secrets };
    },
    close,
  };
}

interface Broker {
  readonly catalog: Catalog;
  readonly collections: Collections;
  readonly key: string;
}

async function answer(broker: Broker, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const session = decodeURIComponent((request.url ?? "").slice(1));
  const token = tokenOf(broker.key, session);
  const nonce = String(request.headers["sluice-nonce"] ?? "");
  const [, given = ""] = /^Bearer ([0-9a-f]{64})$/.exec(request.headers.authorization ?? "") ?? [];
  const expected = toHmac(token, nonce);
  const isGiven = given !== "" && timingSafeEqual(Buffer.from(given, "hex"), expected);
  if (nonce === "" || !isGiven) return void response.writeHead(401).end();
  const secrets = (await readSecrets(broker, session)).map(toLent);
  response.end(encrypt(JSON.stringify({ secrets }), token, nonce));
}

/** The first credential of a name wins; archived ones have no secret. */
async function readSecrets({ catalog, collections, key }: Broker, session: string): Promise<NamedSecret[]> {
  const owned = await findTenantSession({ catalog, collections }, session);
  const secrets = new Map<string, NamedSecret>();
  for (const vault_id of owned?.body.vault_ids ?? []) {
    const { tenant } = owned as { tenant: string };
    for (const { id, body } of await collections.credentials.list(tenant, { parent: vault_id, limit: 100 })) {
      const { auth } = body;
      if (auth.type !== "environment_variable" || secrets.has(auth.secret_name)) continue;
      const { secret_value: value } = await openCredential(catalog, tenant, id);
      if (value === undefined) continue;
      const { secret_name: name, networking, injection_location } = auth;
      secrets.set(name, {
        name,
        placeholder: `SLUICE_SECRET_${toHmac(key, `${session}\n${id}`).toString("hex").slice(0, 40)}`,
        value,
        ...(networking.type === "limited" && { hosts: networking.allowed_hosts }),
        ...injection_location,
        details: { credential_id: id, vault_id },
      });
    }
  }
  return [...secrets.values()];
}

function toLent({ name: _name, details: _details, ...lent }: NamedSecret): LentSecret {
  return lent;
}

function tokenOf(key: string, session: string): string {
  return toHmac(key, session).toString("hex");
}

function encrypt(text: string, token: string, nonce: string): Buffer {
  const iv = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", toHmac(token, "answer"), iv).setAAD(Buffer.from(nonce));
  const encrypted = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), encrypted]);
}

function toHmac(key: string, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
