import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createSqliteLog, type EventLog } from "../log/index.ts";
import type { CheckpointStorage } from "../sandbox/checkpoint/port.ts";
import { defaultProviders, type SandboxProvider } from "../sandbox/index.ts";
import { createEngine, DEFAULT_ORPHAN_MS, type Engine, type EngineOptions } from "../sessions/index.ts";

/** An engine that several instances of this process share. */
export interface SharedEngine {
  readonly engine: Engine;
  readonly log: EventLog;
  /** The name by which sessions may ask for this provider. */
  register(provider: SandboxProvider): string;
  shelve(name: string, open: () => CheckpointStorage): void;
  /** The last one to let go closes it. */
  release(): Promise<void>;
}

/** One engine for each data folder, whoever asks for it. */
export async function acquireEngine(folder: string): Promise<SharedEngine> {
  const dataDir = resolve(folder);
  // One that is closing has to be gone first: two would fight over the same agents.
  for (let closing = CLOSING.get(dataDir); closing; closing = CLOSING.get(dataDir)) await closing;
  const house = HOUSES.get(dataDir) ?? new House(dataDir);
  HOUSES.set(dataDir, house);
  return house.enter();
}

/** A sandbox that isolates nothing or keeps less than it should is a warning of the process; each thing once. */
function createWarner(): NonNullable<EngineOptions["logger"]> {
  const said = new Set<string>();
  return ({ level, message, provider }) => {
    if (level !== "warn" || provider === undefined || said.has(message)) return;
    said.add(message);
    process.emitWarning(message, "SluiceWarning");
  };
}

const HOUSES = new Map<string, House>();
const CLOSING = new Map<string, Promise<void>>();

class House {
  readonly #dataDir: string;
  readonly #opened: Promise<{ engine: Engine; log: EventLog }>;
  readonly #providers: SandboxProvider[];
  readonly #registered = new Map<SandboxProvider, string>();
  readonly #shelves = new Map<string, CheckpointStorage>();
  #guests = 0;

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
    this.#providers = defaultProviders({ root: join(dataDir, "sandboxes"), hide: [dataDir] });
    this.#opened = this.#open();
  }

  async enter(): Promise<SharedEngine> {
    this.#guests += 1;
    try {
      const { engine, log } = await this.#opened;
      let isReleased = false;
      return {
        engine,
        log,
        register: (provider) => this.#register(provider),
        shelve: (name, open) => {
          if (!this.#shelves.has(name)) this.#shelves.set(name, open());
        },
        release: async () => {
          if (isReleased) return;
          isReleased = true;
          await this.#leave();
        },
      };
    } catch (error) {
      this.#guests -= 1;
      if (HOUSES.get(this.#dataDir) === this) HOUSES.delete(this.#dataDir);
      throw error;
    }
  }

  async #open(): Promise<{ engine: Engine; log: EventLog }> {
    await mkdir(this.#dataDir, { recursive: true, mode: 0o700 });
    const log = createSqliteLog({ folder: this.#dataDir });
    try {
      const shelves = (name: string): CheckpointStorage | undefined => this.#shelves.get(name);
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
    this.#guests -= 1;
    if (this.#guests > 0) return;
    HOUSES.delete(this.#dataDir);
    const closing = this.#close().finally(() => CLOSING.delete(this.#dataDir));
    CLOSING.set(this.#dataDir, closing);
    await closing;
  }

  /** Idle agents end; what runs goes on and is found again. */
  async #close(): Promise<void> {
    const { engine, log } = await this.#opened;
    await engine.drain({ graceMs: 0 });
    await log.close();
  }

  /** Another provider of the same name is not the same place. */
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
