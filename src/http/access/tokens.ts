import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Catalog, Document } from "../../catalog/port.ts";
import {
  createId,
  type CreatedToken,
  type CreateToken,
  type Scope,
  SluiceError,
  type TokenInfo,
} from "../../contract/index.ts";
import { type Access, DEFAULT_TENANT, RESERVED_TENANTS, SYSTEM_TENANT } from "./access.ts";

const KIND = "token";
/** The form of a token: its id, which finds its document, and its secret. */
const FORM = /^(tok_[0-9A-Za-z]{20})\.([\w-]{43})$/;

interface TokenBody {
  /** SHA-256 of the secret, which is random: it needs no salt. The token itself is stored nowhere. */
  readonly hash: string;
  readonly scope: Scope;
  readonly session?: string | undefined;
  readonly workspace?: string | undefined;
  readonly name?: string | undefined;
  readonly expiresAt?: number | undefined;
  readonly revokedAt?: number;
}

/** The tokens with a scope. They are documents of the catalog, so that every server of the data folder knows them. */
export class Tokens {
  readonly #catalog: Catalog;

  constructor(catalog: Catalog) {
    this.#catalog = catalog;
  }

  async create({ expiresIn, ...given }: CreateToken): Promise<CreatedToken> {
    if (given.workspace !== undefined && RESERVED_TENANTS.has(given.workspace))
      throw new SluiceError("invalid_request", `No workspace may be called ${given.workspace}.`);
    const id = createId("token");
    const secret = randomBytes(32).toString("base64url");
    const expiresAt = expiresIn === undefined ? undefined : Date.now() + expiresIn * 1000;
    const body: TokenBody = { ...given, hash: hash(secret).toString("hex"), ...(expiresAt && { expiresAt }) };
    const labels = { workspace: given.workspace ?? DEFAULT_TENANT };
    const change = { op: "create", kind: KIND, id, body, labels } as const;
    const [document] = await this.#catalog.write(SYSTEM_TENANT, [change]);
    return { ...toInfo(document as Document<TokenBody>), token: `${id}.${secret}` };
  }

  /** The tokens that are valid, newest first; with `workspace` only those of it. */
  async list(page: { after?: number | undefined; limit: number; workspace?: string | undefined }): Promise<{
    tokens: TokenInfo[];
    next?: string;
  }> {
    const { after, limit, workspace } = page;
    const documents = (await this.#catalog.list(SYSTEM_TENANT, {
      kind: KIND,
      order: "desc",
      after,
      limit: limit + 1,
      ...(workspace !== undefined && { labels: { workspace } }),
    })) as Document<TokenBody>[];
    const shown = documents.slice(0, limit);
    const tokens = shown.filter(({ body }) => isLive(body)).map(toInfo);
    const last = shown.at(-1);
    return documents.length > limit && last ? { tokens, next: String(last.ordinal) } : { tokens };
  }

  /** Ends a token at once. With `workspace`, only one of it. */
  async revoke(id: string, { workspace }: { workspace?: string | undefined } = {}): Promise<void> {
    const found = await this.#find(id);
    const isOwn = workspace === undefined || (found?.body.workspace ?? DEFAULT_TENANT) === workspace;
    if (!found || !isOwn || found.body.revokedAt !== undefined)
      throw new SluiceError("not_found", `There is no token ${id}. GET /v1/tokens lists the tokens.`);
    const body: TokenBody = { ...found.body, revokedAt: Date.now() };
    const change = { op: "replace", kind: KIND, id, expect: found.revision, body, archived: true } as const;
    await this.#catalog.write(SYSTEM_TENANT, [change]);
  }

  /** The access of a token that a client sent; undefined for any text but a valid token. */
  async open(text: string): Promise<Access | undefined> {
    const [, id, secret] = FORM.exec(text) ?? [];
    const found = id === undefined ? undefined : await this.#find(id);
    if (!found || secret === undefined || !isLive(found.body)) return undefined;
    if (!timingSafeEqual(hash(secret), Buffer.from(found.body.hash, "hex"))) return undefined;
    const { scope, session, workspace = DEFAULT_TENANT } = found.body;
    return { tenant: workspace, scope, session, token: found.id };
  }

  /** Whether a token may still be used. */
  async isLive(id: string): Promise<boolean> {
    const found = await this.#find(id);
    return found !== undefined && isLive(found.body);
  }

  async #find(id: string): Promise<Document<TokenBody> | undefined> {
    return (await this.#catalog.find(SYSTEM_TENANT, KIND, id)) as Document<TokenBody> | undefined;
  }
}

function isLive({ revokedAt, expiresAt = Number.POSITIVE_INFINITY }: TokenBody): boolean {
  return revokedAt === undefined && expiresAt > Date.now();
}

function toInfo({ id, createdAt, body }: Document<TokenBody>): TokenInfo {
  const { scope, session, workspace, name, expiresAt } = body;
  return {
    id,
    scope,
    ...(session === undefined ? {} : { session }),
    ...(workspace === undefined ? {} : { workspace }),
    ...(name === undefined ? {} : { name }),
    createdAt,
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
}

function hash(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}
