import type { Catalog } from "../../catalog/port.ts";
import type { EventType, WebhookDelivery } from "../../contract/index.ts";
import type { EventLog } from "../../log/port.ts";
import { Collection } from "../anthropic/collections.ts";
import { fetcherOf } from "../anthropic/tenant-network.ts";
import { SYSTEM_TENANT } from "../auth.ts";
import { type Logger, stderrLogger } from "../context.ts";
import { digestOf, sha256 } from "../digest.ts";
import { Cursors } from "./cursors.ts";
import { Dispatcher } from "./dispatcher.ts";
import { Endpoint, PATIENCE, type Patience, type Trouble, type WebhookStats } from "./delivery.ts";
import type { Nodes } from "../nodes/port.ts";
import { managedAgents } from "./managed-agents.ts";
import { createReporter, type MetadataOf, toTestMessage } from "./reports.ts";
import { type StoredWebhook, WebhookStore } from "./store.ts";
import type { Reporter } from "./walk.ts";

export interface WebhooksOptions {
  readonly log: EventLog;
  readonly catalog: Catalog;
  /** Endpoints of the server's owner, which get the webhooks of Claude Managed Agents. */
  readonly urls?: readonly string[];
  /** `whsec_` and base64; signs the messages to `urls`. */
  readonly key?: string;
  /** Private hosts (`host` or `host:port`) that webhooks of workspaces may reach. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** The current metadata of a session, for filters. */
  readonly metadataOf?: MetadataOf;
  readonly patience?: Partial<Patience>;
  readonly logger?: Logger;
  /** Of the servers that share the log and the catalog, only one reports each session. */
  readonly nodes?: Pick<Nodes, "reports" | "onGone"> | undefined;
}

export interface Webhooks {
  /** Called after each commit. `events` is empty if the commit created a session. */
  committed(session: string, events: readonly { readonly type: EventType }[]): void;
  readonly stats: Readonly<WebhookStats>;
  /** The webhooks of /v1/webhooks. */
  readonly store: WebhookStore;
  /** Takes over changes of the store. */
  refresh(): Promise<void>;
  /** Sends one test message and returns the attempt. */
  test(id: string): Promise<WebhookDelivery | undefined>;
  /** The newest attempts since the server's start, newest first. */
  deliveries(id: string): readonly WebhookDelivery[];
  /** Ends all deliveries. The next start of the server makes those that are still open. */
  close(): Promise<void>;
}

/** How often the active sessions are read: another process may write to the same log. */
const LOOK_MS = 10_000;
/** How many of the newest sessions are read with them. */
const NEWEST = 100;

/** Reports events of sessions to the endpoints, at least once, from the log and without a queue. */
export function createWebhooks(options: WebhooksOptions): Webhooks {
  const courier = new Courier(options);
  const { logger = stderrLogger } = options;
  const note = (message: string) => (error: unknown) => {
    logger({ level: "warn", message, error: String(error) });
  };
  const refresh = (): Promise<void> => courier.refresh();
  void refresh().catch(note("the stored webhooks could not be read and are tried again later"));
  const timer = setInterval(() => {
    void refresh()
      .then(() => courier.look())
      .catch(note("webhooks could not read the sessions that other processes wrote to"));
  }, LOOK_MS);
  timer.unref();
  // The sessions of a node that is gone may have unreported events.
  const forget = options.nodes?.onGone(() => courier.recheck());
  return {
    stats: courier.stats,
    store: courier.store,
    refresh,
    committed: (session, events) => courier.committed(session, events),
    test: (id) => courier.test(id),
    deliveries: (id) => courier.deliveries(id),
    async close() {
      clearInterval(timer);
      forget?.();
      await courier.close();
    },
  };
}

/** A running dispatcher with its endpoint. */
interface Running {
  readonly dispatcher: Dispatcher;
  readonly endpoint: Endpoint;
  /** Changes with the settings of the webhook. */
  readonly version: string;
  stop(): Promise<void>;
}

/** The dispatchers of all endpoints: those of `urls`, and those of the stored webhooks. */
class Courier {
  readonly stats: WebhookStats = { delivered: 0, failed: 0, givenUp: 0 };
  readonly store: WebhookStore;
  readonly #options: WebhooksOptions;
  readonly #logger: Logger;
  readonly #running = new Map<string, Running>();
  #refreshing: Promise<void> = Promise.resolve();
  #isClosed = false;
  #lookedAt = Date.now();

  constructor(options: WebhooksOptions) {
    const { catalog, urls = [], key = "", allowedHosts } = options;
    this.#options = options;
    this.#logger = options.logger ?? stderrLogger;
    this.store = new WebhookStore(catalog, { allowedHosts });
    const endpoints = new Collection<{ since: number }>(catalog, "webhook_endpoint");
    const startedAt = Date.now();
    for (const url of new Set(urls)) {
      const id = sha256(url).slice(0, 16);
      const since = async (): Promise<number> => {
        const body = { since: startedAt, settled: true };
        const known = await endpoints.find(SYSTEM_TENANT, id);
        return (known ?? (await endpoints.create(SYSTEM_TENANT, { id, body }))).body.since;
      };
      this.#start({ id, url, key, since, reporter: managedAgents, fetch, version: "" });
    }
  }

  committed(session: string, events: readonly { readonly type: string }[]): void {
    if (this.#running.size === 0) return;
    const types = events.map(({ type }) => type);
    for (const { dispatcher } of this.#running.values()) dispatcher.moved(session, types);
  }

  recheck(): void {
    for (const { dispatcher } of this.#running.values()) dispatcher.recheck();
  }

  /** Reads the sessions that another process may have written to. */
  async look(): Promise<void> {
    const since = this.#lookedAt;
    this.#lookedAt = Date.now();
    if (this.#running.size === 0) return;
    const newest = await this.#options.log.list({ limit: NEWEST });
    const recent = newest.filter(({ updatedAt }) => updatedAt >= since);
    for (const { id } of [...(await this.#options.log.active()), ...recent])
      for (const { dispatcher } of this.#running.values()) dispatcher.moved(id);
  }

  /** One refresh at a time: a webhook has one dispatcher. */
  refresh(): Promise<void> {
    const next = this.#refreshing.catch(() => {}).then(() => this.#refresh());
    this.#refreshing = next;
    return next;
  }

  async #refresh(): Promise<void> {
    const wanted = new Map((await this.store.all()).map((webhook) => [webhook.id, webhook]));
    for (const [id, running] of this.#running) {
      if (running.version === "" || running.version === versionOf(wanted.get(id))) continue;
      await running.stop();
      this.#running.delete(id);
    }
    for (const webhook of wanted.values()) {
      if (this.#isClosed) return;
      if (webhook.enabled && !this.#running.has(webhook.id)) await this.#startStored(webhook);
    }
  }

  async #startStored(webhook: StoredWebhook): Promise<void> {
    const { id, url, since, trouble } = webhook;
    const key = await this.store.openSecret(id);
    if (key === undefined) return;
    const reporter = createReporter(webhook, this.#options);
    const version = versionOf(webhook);
    const note = (found: Trouble | undefined): Promise<void> => this.store.note(id, found);
    const settings = { id, url, key, reporter, version, trouble, note, since: async () => since };
    this.#start({ ...settings, fetch: this.#fetcherOf(webhook) });
  }

  #start(settings: {
    readonly id: string;
    readonly url: string;
    readonly key: string;
    readonly reporter: Reporter;
    readonly since: () => Promise<number>;
    readonly version: string;
    readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
    readonly trouble?: StoredWebhook["trouble"];
    readonly note?: (trouble: Trouble | undefined) => Promise<void>;
  }): void {
    const { id, version, ...given } = settings;
    const { log, catalog } = this.#options;
    const abort = new AbortController();
    const { signal } = abort;
    const patience = { ...PATIENCE, ...this.#options.patience };
    const shared = { signal, logger: this.#logger };
    const endpoint = new Endpoint({ ...given, ...shared, patience, stats: this.stats });
    const cursors = new Cursors(catalog, id);
    const reports = this.#options.nodes?.reports.bind(this.#options.nodes);
    const dispatcher = new Dispatcher({ ...given, ...shared, log, cursors, endpoint, reports });
    const ended = dispatcher.run();
    const stop = async (): Promise<void> => {
      abort.abort();
      await ended;
    };
    this.#running.set(id, { dispatcher, endpoint, version, stop });
  }

  async test(id: string): Promise<WebhookDelivery | undefined> {
    const webhook = await this.store.find(id);
    const key = await this.store.openSecret(id);
    if (!webhook || key === undefined) return undefined;
    const { signal } = new AbortController();
    const patience = { ...PATIENCE, ...this.#options.patience };
    const shared = { signal, patience, logger: this.#logger, stats: this.stats };
    const endpoint = new Endpoint({ ...shared, url: webhook.url, key, fetch: this.#fetcherOf(webhook) });
    await endpoint.attempt(toTestMessage(webhook, Date.now()));
    return endpoint.attempts[0];
  }

  deliveries(id: string): readonly WebhookDelivery[] {
    return this.#running.get(id)?.endpoint.attempts ?? [];
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#refreshing.catch(() => {});
    await Promise.all([...this.#running.values()].map(({ stop }) => stop()));
    this.#running.clear();
  }

  /** A webhook of a workspace reaches public hosts only, unless the server's owner allows its host. */
  #fetcherOf({ workspace, url }: StoredWebhook): (url: string, init: RequestInit) => Promise<Response> {
    return this.store.isAllowed(url) ? fetch : fetcherOf(workspace);
  }
}

/** A digest of the webhook's settings. Its failures do not count: a dispatcher stores those itself. */
function versionOf(webhook: StoredWebhook | undefined): string {
  if (!webhook?.enabled) return "off";
  const { trouble: _, disabledReason: __, ...settings } = webhook;
  return digestOf(settings);
}
