import { toSandboxNote } from "../contract/index.ts";
import type { Logger } from "./deps.ts";
import type { EngineOptions } from "./engineOptions.ts";

/** For `onCommit`: what happens to sandboxes, as lines of the server's own log. No client sees any of it. */
export function createSandboxDebug(logger: Logger): NonNullable<EngineOptions["onCommit"]> {
  return (session, events) => {
    for (const { type, data } of events) {
      const note = toSandboxNote(type, data);
      if (note) logger({ ...note, level: "debug", message: type, session });
    }
  };
}
