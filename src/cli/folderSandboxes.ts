import type { Checkpoint } from "../client/index.ts";
import { SluiceError } from "../contract/index.ts";
import type { CheckpointInfo } from "../sandbox/checkpoint/port.ts";
import type { SandboxFiles } from "../sandbox/port.ts";
import type { Engine } from "../sessions/port.ts";
import { unknownSession } from "./folderSource.ts";
import type { Sandboxes } from "./sandboxes.ts";

/** Takes the session over while it lasts, unless somebody else is running it. */
export function createFolderSandboxes(engine: Engine, folder: string): Sandboxes {
  const named = <T>(session: string, answer: Promise<T>): Promise<T> =>
    answer.catch((error: unknown) => {
      throw isUnknown(error) ? unknownSession(session, folder) : error;
    });
  return {
    where: folder,
    has: (session) =>
      engine.info(session).then(
        () => true,
        (error: unknown) => {
          if (isUnknown(error)) return false;
          throw error;
        },
      ),
    files(session) {
      let opened: Promise<SandboxFiles> | undefined;
      const files = (): Promise<SandboxFiles> => (opened ??= engine.files(session));
      return {
        stat: async (path) => (await files()).stat(path),
        list: async (path) => (await files()).list(path),
        read: async (path) => (await (await files()).open(path)).content,
        write: async (path, content) => (await files()).write(path, content),
        mkdir: async (path) => (await files()).mkdir(path),
      };
    },
    async checkpoints(session, { limit }) {
      const all = await named(session, engine.checkpoints(session, limit === undefined ? {} : { limit }));
      return all.map(toCheckpoint);
    },
    checkpoint: async (session, options) =>
      toCheckpoint(await named(session, engine.checkpoint(session, options))),
    restore: async (session, checkpoint) =>
      toCheckpoint(await named(session, engine.restore(session, checkpoint))),
    async close() {
      await engine.drain({ graceMs: 0 });
      await engine.log.close();
    },
  };
}

/** As the wire has it: what is not known is not there. */
function toCheckpoint(info: CheckpointInfo): Checkpoint {
  return JSON.parse(JSON.stringify(info)) as Checkpoint;
}

function isUnknown(error: unknown): boolean {
  return error instanceof SluiceError && error.code === "session_not_found";
}
