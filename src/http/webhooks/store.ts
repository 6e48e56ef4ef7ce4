import type { Catalog, Document } from "../../catalog/port.ts";
import {
  type CreatedWebhook,
  createId,
  type CreateWebhook,
  SluiceError,
  type UpdateWebhook,
  type WebhookDialect,
  type WebhookInfo,
  WebhookType,
} from "../../contract/index.ts";
import { defined } from "../../contract/own-keys.ts";
import { DEFAULT_TENANT, isWorkspace, RESERVED_TENANTS, SYSTEM_TENANT } from "../access/access.ts";
import { Collection } from "../anthropic/collections.ts";
import { isPrivateHost } from "../../sessions/private-hosts.ts";
import type { Trouble } from "./delivery.ts";
import { createWebhookSecret } from "./signature.ts";

/** How many webhooks a workspace may have: each is a reader of every session. */
const MAX_WEBHOOKS = 100;
const PAGE = 100;

interface WebhookBody {
  readonly url: string;
  readonly types: readonly WebhookType[];
  readonly as: WebhookDialect;
  readonly session?: string | undefined;
  readonly agent?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly workspace: string;
  readonly name?: string | undefined;
  /** A session without a cursor is reported from this time on. */
  readonly since: number;
  readonly enabled: boolean;
  readonly disabledReason?: string | undefined;
  readonly trouble?: Pick<Trouble, "failures" | "problem" | "nextAt"> | undefined;
}

export interface StoredWebhook extends WebhookBody {
  readonly id: string;
}

/** The webhooks of /v1/webhooks: documents of the catalog, with their secrets encrypted. */
export class WebhookStore {
  readonly #catalog: Catalog;
  readonly #documents: Collection<WebhookBody>;
  readonly #allowed: ReadonlySet<string>;

  /** `allowedHosts` are private hosts (`host` or `host:port`) that webhooks of workspaces may reach. */
  constructor(
    catalog: Catalog,
    { allowedHosts = [] }: { allowedHosts?: readonly string[] | undefined } = {},
  ) {
    this.#catalog = catalog;
    this.#documents = new Collection(catalog, "webhook");
    this.#allowed = new Set(allowedHosts.map((host) => host.toLowerCase()));
  }

  async create({ workspace = DEFAULT_TENANT, ...given }: CreateWebhook): Promise<CreatedWebhook> {
    if (isWorkspace(workspace) && RESERVED_TENANTS.has(workspace))
      throw new SluiceError("invalid_request", `No workspace may be called ${workspace}.`);
    this.#assertReachable(workspace, given.url);
    const { as = "universal", types = typesOf(as) } = given;
    const body: WebhookBody = {
      ...given,
      types: [...new Set(types)],
      as,
      workspace,
      since: Date.now(),
      enabled: true,
    };
    assertSpeakable(body);
    const labels = { workspace };
    const all = await this.#documents.list(SYSTEM_TENANT, { labels, limit: MAX_WEBHOOKS });
    if (all.length >= MAX_WEBHOOKS)
      throw new SluiceError(
        "too_large",
        `A workspace has at most ${MAX_WEBHOOKS} webhooks. Delete one first.`,
      );
    const secret = createWebhookSecret();
    const id = createId("webhook");
    const document = await this.#documents.create(SYSTEM_TENANT, { id, body, labels, secret });
    return { ...toInfo(document), secret };
  }

  /** With `workspace`, only a webhook of it. */
  async get(id: string, { workspace }: { workspace?: string } = {}): Promise<WebhookInfo> {
    return toInfo(await this.#get(id, workspace));
  }

  async find(id: string): Promise<StoredWebhook | undefined> {
    const found = await this.#documents.find(SYSTEM_TENANT, id);
    return found && { ...found.body, id };
  }

  async list(page: { after?: number | undefined; limit: number; workspace?: string }): Promise<{
    webhooks: WebhookInfo[];
    next?: string;
  }> {
    const { after, limit, workspace } = page;
    const found = await this.#documents.list(SYSTEM_TENANT, {
      order: "desc",
      after,
      limit: limit + 1,
      ...(workspace !== undefined && { labels: { workspace } }),
    });
    const shown = found.slice(0, limit);
    const webhooks = shown.map(toInfo);
    const last = shown.at(-1);
    return found.length > limit && last ? { webhooks, next: String(last.ordinal) } : { webhooks };
  }

  /** All webhooks of all workspaces. */
  async all(): Promise<StoredWebhook[]> {
    const all: StoredWebhook[] = [];
    for (let after: number | undefined; ;) {
      const page = await this.#documents.list(SYSTEM_TENANT, { after, limit: PAGE });
      all.push(...page.map(({ id, body }) => ({ ...body, id })));
      after = page.at(-1)?.ordinal;
      if (page.length < PAGE) return all;
    }
  }

  async update(
    id: string,
    change: UpdateWebhook,
    { workspace }: { workspace?: string } = {},
  ): Promise<WebhookInfo> {
    await this.#get(id, workspace);
    const document = await this.#documents.update(SYSTEM_TENANT, id, ({ body }) => {
      const { enabled, ...fields } = change;
      const changed = { ...body, ...fields };
      for (const name of ["session", "agent", "metadata", "name"] as const)
        if (changed[name] === null) delete changed[name];
      const next = changed as WebhookBody;
      this.#assertReachable(next.workspace, next.url);
      assertSpeakable(next);
      // Sessions that a wider filter includes are reported from now on.
      const isRefiltered = "session" in fields || "agent" in fields || "metadata" in fields;
      const since = isRefiltered ? { since: Date.now() } : {};
      const { disabledReason, trouble, ...fresh } = next;
      const kept = enabled === undefined && fields.url === undefined ? { disabledReason, trouble } : {};
      return { replace: { body: { ...fresh, ...defined(kept), ...since, ...defined({ enabled }) } } };
    });
    return toInfo(document);
  }

  /** Also removes its cursors. */
  async remove(id: string, { workspace }: { workspace?: string } = {}): Promise<void> {
    await this.#get(id, workspace);
    await this.#documents.remove(SYSTEM_TENANT, id, { children: true });
  }

  /** Stores the failures of deliveries; a webhook that is given up is disabled until a client enables it. */
  async note(id: string, trouble: Trouble | undefined): Promise<void> {
    await this.#documents.update(SYSTEM_TENANT, id, ({ body }) => {
      const { trouble: _, ...healthy } = body;
      if (!trouble) return { replace: { body: healthy } };
      const { failures, problem, nextAt, isGivenUp } = trouble;
      const disabledReason = `Disabled after ${failures} failed attempts in a row; the last problem was: ${problem}`;
      const disabled = isGivenUp ? { enabled: false, disabledReason } : {};
      return { replace: { body: { ...healthy, trouble: { failures, problem, nextAt }, ...disabled } } };
    });
  }

  openSecret(id: string): Promise<string | undefined> {
    return this.#catalog.openSecret(SYSTEM_TENANT, this.#documents.kind, id);
  }

  /** Whether the server's owner lets workspaces reach this private host. */
  isAllowed(url: string): boolean {
    const { host, hostname } = new URL(url);
    return this.#allowed.has(host) || this.#allowed.has(hostname);
  }

  async #get(id: string, workspace: string | undefined): Promise<Document<WebhookBody>> {
    const found = await this.#documents.find(SYSTEM_TENANT, id);
    if (found && (workspace === undefined || found.body.workspace === workspace)) return found;
    throw new SluiceError("not_found", `There is no webhook ${id}. GET /v1/webhooks lists the webhooks.`);
  }

  #assertReachable(workspace: string, url: string): void {
    if (!isWorkspace(workspace) || this.isAllowed(url) || !isPrivateHost(new URL(url).hostname)) return;
    throw new SluiceError(
      "invalid_request",
      `url: ${new URL(url).host} is this machine or its network, which a workspace cannot reach. Use a host of the internet, or ask the owner of the server to start it with --allow-webhook-host.`,
    );
  }
}

/** The types that a dialect has words for. */
function typesOf(as: WebhookDialect): WebhookType[] {
  return WebhookType.options.filter((type) => as !== "anthropic" || type !== "budget.reached");
}

function assertSpeakable({ as, types }: WebhookBody): void {
  const unknown = types.find((type) => !typesOf(as).includes(type));
  if (unknown === undefined) return;
  throw new SluiceError(
    "invalid_request",
    `types: the dialect ${as} has no word for ${unknown}. Leave it out, or use another dialect in "as".`,
  );
}

function toInfo({ id, createdAt, body }: Document<WebhookBody>): WebhookInfo {
  const { url, types, as, session, agent, metadata, workspace, name, enabled, disabledReason, trouble } =
    body;
  return {
    id,
    url,
    types: [...types],
    as,
    ...defined({ session, agent, metadata }),
    ...(isWorkspace(workspace) ? { workspace } : {}),
    ...defined({ name }),
    createdAt,
    enabled,
    ...defined({ disabledReason }),
    failures: trouble?.failures ?? 0,
    ...(trouble && { problem: trouble.problem, ...(enabled && { nextAttemptAt: trouble.nextAt }) }),
  };
}
