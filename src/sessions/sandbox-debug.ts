import { toSandboxNote } from "../contract/index.ts";
import type { Logger } from "./deps.ts";
import type { EngineOptions } from "./options.ts";

/** For `onCommit`: logs the sandbox events at the level "debug". No client sees them. */
export function createSandboxDebug(logger: Logger): NonNullable<EngineOptions["onCommit"]> {
  return (session, events) => {
    for (const { type, data } of events) {
      const note = toSandboxNote(type, data);
      if (note) logger({ ...note, level: "debug", message: type, session });
    }
  };
}
