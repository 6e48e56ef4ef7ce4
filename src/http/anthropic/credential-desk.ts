import { createCipheriv, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import type { Catalog } from "../../catalog/port.ts";
import type { LentSecret } from "../../contract/index.ts";
import type { Loan, NamedSecret } from "../../sessions/index.ts";
import { openCredential } from "./credential-secrets.ts";
import { listenOnLoopback, type LoopbackListener } from "./loopback-listener.ts";
import { findOwned } from "./session-owner.ts";
import { createShelves, type Shelves } from "./shelves.ts";
import { readSigningKey } from "./signing-key.ts";

export interface CredentialDeskOptions {
  readonly catalog: Catalog;
  /** Where its port is remembered: sandboxes outlive the server. */
  readonly folder: string;
}

export interface CredentialDesk {
  /** What a session's vaults hold for the variables of its programs. */
  lend(session: string): Promise<Loan | undefined>;
  close(): Promise<void>;
}

const PORT_FILE = "credential-desk.port";

/**
 * Lends the `environment_variable` credentials of a session's vaults to the way out of its sandbox, which puts them into
 * requests. They are read each time, so that a changed one holds at once; what the token opens is one session's alone.
 */
export function createCredentialDesk({ catalog, folder }: CredentialDeskOptions): CredentialDesk {
  const shelves = createShelves(catalog);
  let started: Promise<{ listener: LoopbackListener; key: string }> | undefined;

  const start = async (): Promise<{ listener: LoopbackListener; key: string }> => {
    const key = await readSigningKey(catalog, "lending");
    const listener = await listenOnLoopback(join(folder, PORT_FILE), (request, response) => {
      answer({ catalog, shelves, key }, request, response).catch(() => {
        if (!response.headersSent) response.writeHead(500);
        response.end();
      });
    });
    return { listener, key };
  };

  return {
    async lend(session) {
      const owned = await findOwned({ catalog, shelves }, session);
      if (!owned || owned.body.vault_ids.length === 0) return undefined;
      started ??= start();
      const { listener, key } = await started;
      const secrets = await readSecrets({ catalog, shelves, key }, session);
      const url = `http://127.0.0.1:${listener.port}/${encodeURIComponent(session)}`;
      return secrets.length === 0 ? undefined : { lending: { url, token: tokenOf(key, session) }, secrets };
    },
    async close() {
      await (await started?.catch(() => undefined))?.listener.close();
    },
  };
}

interface Desk {
  readonly catalog: Catalog;
  readonly shelves: Shelves;
  readonly key: string;
}

async function answer(desk: Desk, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const session = decodeURIComponent((request.url ?? "").slice(1));
  const token = tokenOf(desk.key, session);
  const nonce = String(request.headers["sluice-nonce"] ?? "");
  const [, given = ""] = /^Bearer ([0-9a-f]{64})$/.exec(request.headers.authorization ?? "") ?? [];
  const expected = toHmac(token, nonce);
  const isGiven = given !== "" && timingSafeEqual(Buffer.from(given, "hex"), expected);
  if (nonce === "" || !isGiven) return void response.writeHead(401).end();
  const secrets = (await readSecrets(desk, session)).map(toLent);
  response.end(seal(JSON.stringify({ secrets }), token, nonce));
}

/** The first credential of a name is the one; those that are archived have none. */
async function readSecrets({ catalog, shelves, key }: Desk, session: string): Promise<NamedSecret[]> {
  const owned = await findOwned({ catalog, shelves }, session);
  const secrets = new Map<string, NamedSecret>();
  for (const vault_id of owned?.body.vault_ids ?? []) {
    const { owner } = owned as { owner: string };
    for (const { id, body } of await shelves.credentials.list(owner, { parent: vault_id, limit: 100 })) {
      const { auth } = body;
      if (auth.type !== "environment_variable" || secrets.has(auth.secret_name)) continue;
      const { secret_value: value } = await openCredential(catalog, owner, id);
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

function seal(text: string, token: string, nonce: string): Buffer {
  const iv = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", toHmac(token, "answer"), iv).setAAD(Buffer.from(nonce));
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]);
}

function toHmac(key: string, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
