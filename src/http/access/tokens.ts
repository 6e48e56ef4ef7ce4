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
  /** SHA-256 of the second half of a browser's login, without which the secret opens nothing. */
  readonly proof?: string;
  /** A login by the server's own token. */
  readonly operator?: true;
  /** The token by which a browser logged in: the login ends with it. */
  readonly parent?: string;
}

/** The facts of a browser's login that a token does not have. */
export interface Login {
  readonly isOperator?: true | undefined;
  readonly parent?: string | undefined;
}

/** The tokens with a scope. They are documents of the catalog, so that every server of the data folder knows them. */
export class Tokens {
  readonly #catalog: Catalog;

  constructor(catalog: Catalog) {
    this.#catalog = catalog;
  }

  create(given: CreateToken): Promise<CreatedToken> {
    return this.#create(given, {});
  }

  /** A token for a browser's cookie. It counts only together with its proof, which the page keeps. */
  async createLogin(
    given: CreateToken,
    { isOperator, parent }: Login,
  ): Promise<CreatedToken & { readonly proof: string }> {
    const proof = randomBytes(32).toString("base64url");
    const created = await this.#create(given, {
      proof: hash(proof).toString("hex"),
      ...(isOperator && { operator: true }),
      ...(parent !== undefined && { parent }),
    });
    return { ...created, proof };
  }

  async #create({ expiresIn, ...given }: CreateToken, login: Partial<TokenBody>): Promise<CreatedToken> {
    if (given.workspace !== undefined && RESERVED_TENANTS.has(given.workspace))
      throw new SluiceError("invalid_request", `No workspace may be called ${given.workspace}.`);
    const id = createId("token");
    const secret = randomBytes(32).toString("base64url");
    const expiresAt = expiresIn === undefined ? undefined : Date.now() + expiresIn * 1000;
    const body: TokenBody = {
      ...given,
      ...login,
      hash: hash(secret).toString("hex"),
      ...(expiresAt && { expiresAt }),
    };
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
    const found = await this.#match(text);
    return found?.body.proof === undefined ? found && toAccess(found) : undefined;
  }

  /** The access of a browser's login by its two halves. */
  async openLogin(text: string, proof: string): Promise<Access | undefined> {
    const found = await this.#match(text);
    if (found?.body.proof === undefined) return undefined;
    if (!timingSafeEqual(hash(proof), Buffer.from(found.body.proof, "hex"))) return undefined;
    return { ...toAccess(found), ...(found.body.operator && { isOperator: true }) };
  }

  /** Whether a token may still be used. */
  async isLive(id: string): Promise<boolean> {
    const found = await this.#find(id);
    return found !== undefined && this.#isUsable(found.body);
  }

  async #match(text: string): Promise<Document<TokenBody> | undefined> {
    const [, id, secret] = FORM.exec(text) ?? [];
    const found = id === undefined ? undefined : await this.#find(id);
    if (!found || secret === undefined || !(await this.#isUsable(found.body))) return undefined;
    return timingSafeEqual(hash(secret), Buffer.from(found.body.hash, "hex")) ? found : undefined;
  }

  async #isUsable(body: TokenBody): Promise<boolean> {
    if (!isLive(body)) return false;
    return body.parent === undefined || this.isLive(body.parent);
  }

  async #find(id: string): Promise<Document<TokenBody> | undefined> {
    return (await this.#catalog.find(SYSTEM_TENANT, KIND, id)) as Document<TokenBody> | undefined;
  }
}

function toAccess({ id, body }: Document<TokenBody>): Access {
  const { scope, session, workspace = DEFAULT_TENANT } = body;
  return { tenant: workspace, scope, session, token: id };
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
