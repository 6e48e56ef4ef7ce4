import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { isOpenSandbox, SluiceError, type SluiceEvent } from "../../contract/index.ts";
import { createSqliteLog, type EventLog } from "../../log/index.ts";
import type { CheckpointStorage } from "../../sandbox/checkpoint/port.ts";
import { defaultDataFolder } from "../../sandbox/data-folder.ts";
import { defaultProviders, type SandboxProvider } from "../../sandbox/index.ts";
import { createEngine, DEFAULT_ORPHAN_MS, type Engine, type EngineOptions } from "../../sessions/index.ts";
import type { CheckpointStore } from "../storage.ts";
import { type Backend, codeOf, type Link, toCheckpointInfo } from "./port.ts";

export interface EmbeddedOptions {
  readonly data: string | undefined;
  readonly sandbox: string | SandboxProvider | undefined;
  readonly checkpointStore: CheckpointStore | undefined;
}

/** The backend of an engine in this process. */
export function createEmbeddedBackend({ data, sandbox, checkpointStore }: EmbeddedOptions): Backend {
  return {
    async open() {
      const shared = await acquireEngine(data ?? defaultDataFolder());
      const { name, open } = checkpointStore ?? {};
      if (name !== undefined && open !== undefined) await shared.addStore(name, open);
      const provider = typeof sandbox === "object" ? shared.register(sandbox) : sandbox;
      const isolated = typeof sandbox === "object" ? sandbox.isolated !== false : !isOpenSandbox(sandbox);
      return { ...toLink(shared), sandbox: provider, isolated };
    },
  };
}

function toLink({ engine, log, release }: SharedEngine): Omit<Link, "sandbox" | "isolated"> {
  return {
    create: async (id, spec) => void (await engine.create(id, spec)),
    find: (id) =>
      engine.info(id).catch((error: unknown) => {
        if (codeOf(error) === "session_not_found") return undefined;
        throw error;
      }),
    async send(id, prompt, options) {
      const content = [{ type: "text" as const, text: prompt }];
      return (await engine.send(id, { content, via: "sdk", delivery: "alone", options })).turnId;
    },
    exec: async (id, command) => (await engine.exec(id, command)).commandId,
    async interrupt(id) {
      const { turnId, commandId } = await engine.interrupt(id, { by: "sdk" });
      return turnId !== undefined || commandId !== undefined;
    },
    terminate: (id, options) => engine.terminate(id, options),
    pause: (id) => engine.pause(id),
    resume: (id) => engine.resume(id),
    host: async (id, port) => (await engine.host(id, port)).origin,
    files: {
      read: async (id, path) => (await engine.files(id)).read(path),
      write: async (id, path, content) => (await engine.files(id)).write(path, content),
      mkdir: async (id, path) => (await engine.files(id)).mkdir(path),
      list: async (id, path) => (await engine.files(id)).list(path),
    },
    checkpoint: async (id, options) => toCheckpointInfo(await engine.checkpoint(id, options)),
    restore: async (id, checkpoint) => void (await engine.restore(id, checkpoint)),
    listCheckpoints: async (store, options) => (await engine.shelved(store, options)).map(toCheckpointInfo),
    read: async (id, { types, ...page }) => {
      const stored = await log.read(id, { ...page, ...(types && { types: new Set(types) }) });
      return stored.map(({ body }) => JSON.parse(body) as SluiceEvent);
    },
    follow: (id, options) => followLog(log, id, options),
    close: release,
  };
}

const PAGE_SIZE = 500;

async function* followLog(
  log: EventLog,
  session: string,
  { after: from, signal }: { after: number; signal: AbortSignal },
): AsyncGenerator<SluiceEvent, void> {
  const ordinal = (await log.find(session))?.ordinal;
  if (ordinal === undefined) return;
  const release = log.hold(ordinal);
  let after = from;
  try {
    while (!signal.aborted) {
      const page = await log.read(session, { after, limit: PAGE_SIZE, ordinal }).catch((error: unknown) => {
        if (error instanceof SluiceError && error.code === "session_not_found") return undefined;
        throw error;
      });
      if (!page) return;
      for (const stored of page) {
        if (signal.aborted) return;
        after = stored.sequence;
        yield JSON.parse(stored.body) as SluiceEvent;
        if (stored.type === "session.ended" || stored.type === "session.deleted") return;
      }
      if (page.length > 0) continue;
      if ((await log.find(session))?.ordinal !== ordinal) return;
      await log.moved(session, after, { signal, ordinal }).catch((error: unknown) => {
        if (!signal.aborted) throw error;
      });
    }
  } finally {
    release();
  }
}

/** One engine that several instances of this process share. */
export interface SharedEngine {
  readonly engine: Engine;
  readonly log: EventLog;
  /** Returns the provider's name for sessions. */
  register(provider: SandboxProvider): string;
  addStore(name: string, open: () => Promise<CheckpointStorage>): Promise<void>;
  /** The last release closes the engine. */
  release(): Promise<void>;
}

/** Opens the engine of a data folder, or shares the open one. */
async function acquireEngine(folder: string): Promise<SharedEngine> {
  const dataDir = resolve(folder);
  // Two engines on one folder would compete for the same agents.
  for (let closing = CLOSING.get(dataDir); closing; closing = CLOSING.get(dataDir)) await closing;
  const engine = ENGINES.get(dataDir) ?? new FolderEngine(dataDir);
  ENGINES.set(dataDir, engine);
  return engine.enter();
}

/** Reports the sandbox's warnings as process warnings, each once. */
function createWarner(): NonNullable<EngineOptions["logger"]> {
  const reported = new Set<string>();
  return ({ level, message, provider }) => {
    if (level !== "warn" || provider === undefined || reported.has(message)) return;
    reported.add(message);
    process.emitWarning(message, "SluiceWarning");
  };
}

const ENGINES = new Map<string, FolderEngine>();
const CLOSING = new Map<string, Promise<void>>();

/** The engine of one data folder. It is open while it has users. */
class FolderEngine {
  readonly #dataDir: string;
  readonly #opened: Promise<{ engine: Engine; log: EventLog }>;
  readonly #providers: SandboxProvider[];
  readonly #registered = new Map<SandboxProvider, string>();
  readonly #stores = new Map<string, CheckpointStorage>();
  #users = 0;

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
    this.#providers = defaultProviders({ root: join(dataDir, "sandboxes"), hide: [dataDir] });
    this.#opened = this.#open();
  }

  async enter(): Promise<SharedEngine> {
    this.#users += 1;
    try {
      const { engine, log } = await this.#opened;
      let isReleased = false;
      return {
        engine,
        log,
        register: (provider) => this.#register(provider),
        addStore: async (name, open) => {
          const storage = this.#stores.get(name) ?? (await open());
          // Another instance may have opened it meanwhile.
          if (!this.#stores.has(name)) this.#stores.set(name, storage);
        },
        release: async () => {
          if (isReleased) return;
          isReleased = true;
          await this.#leave();
        },
      };
    } catch (error) {
      this.#users -= 1;
      if (ENGINES.get(this.#dataDir) === this) ENGINES.delete(this.#dataDir);
      throw error;
    }
  }

  async #open(): Promise<{ engine: Engine; log: EventLog }> {
    await mkdir(this.#dataDir, { recursive: true, mode: 0o700 });
    const log = createSqliteLog({ folder: this.#dataDir });
    try {
      const shelves = (name: string): CheckpointStorage | undefined => this.#stores.get(name);
      const logger = createWarner();
      const orphanMs = DEFAULT_ORPHAN_MS;
      const options = { log, dataDir: this.#dataDir, providers: this.#providers, shelves, logger, orphanMs };
      return { log, engine: await createEngine(options) };
    } catch (error) {
      await log.close();
      throw error;
    }
  }

  async #leave(): Promise<void> {
    this.#users -= 1;
    if (this.#users > 0) return;
    ENGINES.delete(this.#dataDir);
    const closing = this.#close().finally(() => CLOSING.delete(this.#dataDir));
    CLOSING.set(this.#dataDir, closing);
    await closing;
  }

  /** Ends idle agents. Runs continue, and the next engine takes them over. */
  async #close(): Promise<void> {
    const { engine, log } = await this.#opened;
    await engine.drain({ graceMs: 0 });
    await log.close();
  }

  /** Adds a provider and returns its name: a number is added to a name that is taken. */
  #register(provider: SandboxProvider): string {
    const known = this.#registered.get(provider);
    if (known !== undefined) return known;
    const taken = new Set(this.#providers.map(({ id }) => id));
    let id = provider.id;
    for (let n = 2; taken.has(id); n += 1) id = `${provider.id}-${n}`;
    this.#registered.set(provider, id);
    this.#providers.push({
      id,
      ...(provider.isolated === undefined ? {} : { isolated: provider.isolated }),
      ...(provider.check && { check: (spec) => provider.check?.(spec) ?? Promise.resolve() }),
      detect: () => provider.detect(),
      create: (spec) => provider.create(spec),
      connect: (sandbox) => provider.connect(sandbox),
    });
    return id;
  }
}
