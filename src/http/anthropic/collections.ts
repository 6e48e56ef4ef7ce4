import { randomBytes } from "node:crypto";
import type {
  Catalog,
  Change,
  CreateDocument,
  Document,
  ListQuery,
  ReplaceDocument,
} from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import type { AgentBody } from "../../dialects/anthropic/resources/agent.ts";
import type { EnvironmentBody } from "../../dialects/anthropic/resources/environment.ts";
import type { FileBody } from "../../dialects/anthropic/resources/file.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/resource.ts";
import type { SessionBody } from "../../dialects/anthropic/resources/session.ts";
import type { SkillBody, SkillVersionBody } from "../../dialects/anthropic/resources/skill.ts";
import type { CredentialBody, VaultBody } from "../../dialects/anthropic/resources/vault.ts";
import type { CallbackRunBody, WorkBody } from "../../dialects/anthropic/resources/work.ts";
import { SYSTEM_TENANT } from "../auth.ts";
import { type Order, type Page, readPage } from "./page.ts";

/** The kinds of documents of this dialect. */
export interface Collections {
  readonly agents: Collection<AgentBody>;
  readonly agentVersions: Collection<AgentBody>;
  readonly environments: Collection<EnvironmentBody>;
  readonly vaults: Collection<VaultBody>;
  readonly credentials: Collection<CredentialBody>;
  readonly files: Collection<FileBody>;
  readonly skills: Collection<SkillBody>;
  readonly skillVersions: Collection<SkillVersionBody>;
  readonly sessions: Collection<SessionBody>;
  readonly work: Collection<WorkBody>;
  /** By session, under `SYSTEM_TENANT`: a report comes without a key, so its tenant is unknown. */
  readonly callbackRuns: Collection<CallbackRunBody>;
}

export function createCollections(catalog: Catalog): Collections {
  return {
    agents: new Collection(catalog, "agent"),
    agentVersions: new Collection(catalog, "agent_version"),
    environments: new Collection(catalog, "environment", { notFoundCode: "environment_not_found" }),
    vaults: new Collection(catalog, "vault"),
    credentials: new Collection(catalog, "credential"),
    files: new Collection(catalog, "file"),
    skills: new Collection(catalog, "skill"),
    skillVersions: new Collection(catalog, "skill_version"),
    sessions: new Collection(catalog, "session"),
    work: new Collection(catalog, "work"),
    callbackRuns: new Collection(catalog, "callback_run"),
  };
}

const MAX_TRIES = 8;

interface CollectionPage {
  readonly order?: Order | undefined;
  readonly limit: number;
  readonly page?: string | undefined;
}

type CollectionFilter = Omit<ListQuery, "kind" | "order" | "after" | "limit">;

/** The update of a document, and other changes for the same transaction. */
interface CollectionChange {
  readonly replace: Omit<ReplaceDocument, "op" | "kind" | "id" | "expect">;
  readonly also?: readonly Change[];
}

/** The documents of one kind. */
export class Collection<Body> {
  readonly kind: string;
  readonly #catalog: Catalog;
  readonly #notFoundCode: string | undefined;

  constructor(catalog: Catalog, kind: string, options: { notFoundCode?: string } = {}) {
    this.#catalog = catalog;
    this.kind = kind;
    this.#notFoundCode = options.notFoundCode;
  }

  async find(tenant: string, id: string): Promise<Document<Body> | undefined> {
    return (await this.#catalog.find(tenant, this.kind, id)) as Document<Body> | undefined;
  }

  async get(tenant: string, id: string): Promise<Document<Body>> {
    const found = await this.find(tenant, id);
    if (found) return found;
    const facts = this.#notFoundCode === undefined ? {} : { errorCode: this.#notFoundCode };
    throw new SluiceError("not_found", `There is no ${this.kind.replaceAll("_", " ")} ${id}.`, facts);
  }

  async list(tenant: string, query: Omit<ListQuery, "kind">): Promise<Document<Body>[]> {
    return (await this.#catalog.list(tenant, { ...query, kind: this.kind })) as Document<Body>[];
  }

  /** Newest first unless the request says otherwise. */
  page(
    tenant: string,
    { order = "desc", limit, page }: CollectionPage,
    filter: CollectionFilter = {},
  ): Promise<Page<Document<Body>>> {
    return readPage(
      { list: this.kind, order, limit, page },
      (stretch) => this.list(tenant, { ...filter, ...stretch }),
      ({ ordinal }) => ordinal,
    );
  }

  /** Creates a document, with other changes in the same transaction. */
  async create(
    tenant: string,
    document: Omit<CreateDocument, "op" | "kind">,
    also: readonly Change[] = [],
  ): Promise<Document<Body>> {
    const created = { ...document, op: "create", kind: this.kind } as const;
    return (await this.#catalog.write(tenant, [created, ...also]))[0] as Document<Body>;
  }

  async remove(tenant: string, id: string, options: { children?: boolean } = {}): Promise<void> {
    await this.#catalog.write(tenant, [{ op: "remove", kind: this.kind, id, ...options }]);
  }

  /** Computes a change from the current document and writes it. If another write came first, it starts again. */
  async update(
    tenant: string,
    id: string,
    change: (found: Document<Body>) => CollectionChange | undefined | Promise<CollectionChange | undefined>,
  ): Promise<Document<Body>> {
    for (let tries = 1; ; tries += 1) {
      const found = await this.get(tenant, id);
      const wanted = await change(found);
      if (!wanted) return found;
      const { kind } = this;
      const replace = { op: "replace", kind, id, expect: found.revision, ...wanted.replace } as const;
      try {
        const [written] = await this.#catalog.write(tenant, [replace, ...(wanted.also ?? [])]);
        return written as Document<Body>;
      } catch (error) {
        const isConflict = error instanceof SluiceError && error.code === "version_conflict";
        if (!isConflict || tries === MAX_TRIES) throw error;
      }
    }
  }
}

/** The change that archives a document; undefined for an archived one. */
export function toArchived(
  body: { readonly archived_at: string | null },
  cleared: { readonly secret?: null; readonly uniqueKey?: null } = {},
): CollectionChange | undefined {
  if (body.archived_at !== null) return undefined;
  return { replace: { body: { ...body, archived_at: toTimestamp(Date.now()) }, archived: true, ...cleared } };
}

/** The `{data, next_page}` of every list of this dialect. */
export function toList<T, Wire>(
  page: Page<T>,
  toWire: (item: T) => Wire,
): { data: Wire[]; next_page: string | null } {
  return { data: page.items.map(toWire), next_page: page.next_page };
}

export interface TenantSession {
  readonly tenant: string;
  readonly body: SessionBody;
}

/** A session of this dialect with its tenant, for callers without a key. */
export async function findTenantSession(
  { catalog, collections }: { catalog: Catalog; collections: Collections },
  session: string,
): Promise<TenantSession | undefined> {
  // An id is unique in the log, so at most one tenant has it.
  const [tenant] = await catalog.tenantsOf(collections.sessions.kind, session);
  const found = tenant === undefined ? undefined : await collections.sessions.find(tenant, session);
  return found && tenant !== undefined ? { tenant, body: found.body } : undefined;
}

const SIGNING_KEY = "signing_key";

type Purpose = "mcp" | "callbacks" | "lending" | "requests";

/** The key that signs the tokens of one purpose: created on first use, encrypted like every other secret. */
export async function readSigningKey(catalog: Catalog, purpose: Purpose): Promise<string> {
  const known = await catalog.openSecret(SYSTEM_TENANT, SIGNING_KEY, purpose);
  if (known !== undefined) return known;
  const secret = randomBytes(32).toString("hex");
  try {
    await catalog.write(SYSTEM_TENANT, [{ op: "create", kind: SIGNING_KEY, id: purpose, body: {}, secret }]);
    return secret;
  } catch (error) {
    // Another server may have created the key meanwhile.
    const other = await catalog.openSecret(SYSTEM_TENANT, SIGNING_KEY, purpose);
    if (other === undefined) throw error;
    return other;
  }
}
