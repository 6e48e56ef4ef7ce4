import { SluiceError, type SluiceEvent } from "../contract/index.ts";
import type { EventLog } from "../log/index.ts";
import type { SandboxProvider } from "../sandbox/index.ts";
import { type Backend, codeOf, type Link, toCheckpointInfo } from "./backend.ts";
import { defaultDataFolder } from "../sandbox/dataFolder.ts";
import { acquireEngine, type SharedEngine } from "./engines.ts";
import type { Shelf } from "./storage.ts";

export interface EmbeddedOptions {
  readonly data: string | undefined;
  readonly sandbox: string | SandboxProvider | undefined;
  readonly shelf: Shelf | undefined;
}

/** The engine in this process. */
export function createEmbeddedBackend({ data, sandbox, shelf }: EmbeddedOptions): Backend {
  return {
    async open() {
      const shared = await acquireEngine(data ?? defaultDataFolder());
      const { name, open } = shelf ?? {};
      if (name !== undefined && open !== undefined) shared.shelve(name, open);
      const provider = typeof sandbox === "object" ? shared.register(sandbox) : sandbox;
      const isolated = typeof sandbox === "object" ? sandbox.isolated !== false : sandbox !== "local";
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
    shelved: async (shelf, options) => (await engine.shelved(shelf, options)).map(toCheckpointInfo),
    read: async (id, { types, ...page }) => {
      const stored = await log.read(id, { ...page, ...(types && { types: new Set(types) }) });
      return stored.map(({ body }) => JSON.parse(body) as SluiceEvent);
    },
    follow: (id, options) => followLog(log, id, options),
    close: release,
  };
}

const PAGE = 500;

async function* followLog(
  log: EventLog,
  session: string,
  { after: from, signal }: { after: number; signal: AbortSignal },
): AsyncGenerator<SluiceEvent, void> {
  const ordinal = (await log.find(session))?.ordinal;
  if (ordinal === undefined) return;
  const letGo = log.hold(ordinal);
  let after = from;
  try {
    while (!signal.aborted) {
      const page = await log.read(session, { after, limit: PAGE, ordinal }).catch((error: unknown) => {
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
    letGo();
  }
}
